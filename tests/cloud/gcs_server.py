"""gcp-storage-emulator with what the real service has and it has not: put-once is enforced, and requests are served
side by side. Run as a program with the name of a bucket; announces its address on stdout."""

import sys
import threading
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any

from gcp_storage_emulator import server
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import buckets, objects
from gcp_storage_emulator.storage import Storage

one_at_a_time = threading.RLock()


def insert_once(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> None:
    """`ifGenerationMatch=0` means: only if there is no such object."""
    request.data  # noqa: B018  reads the body before the lock is taken
    with one_at_a_time:
        if request.query.get("ifGenerationMatch") == ["0"]:
            named = request.query.get("name")
            name = named[0] if named else request.data["meta"]["name"]
            try:
                storage.get_file_obj(request.params["bucket_name"], name)
            except NotFound:
                pass
            else:
                response.status = HTTPStatus.PRECONDITION_FAILED
                response.json({"error": {"code": 412, "message": "conditionNotMet"}})
                return
        plain_insert(request, response, storage, *args, **kwargs)


class Handler(server.RequestHandler):  # type: ignore[misc]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True


plain_insert = objects.insert
objects.insert = insert_once
server.HANDLERS = tuple(
    (pattern, {method: insert_once if call is plain_insert else call for method, call in calls.items()})
    for pattern, calls in server.HANDLERS
)

if __name__ == "__main__":
    storage = Storage(use_memory_fs=True)
    buckets.create_bucket(sys.argv[1], storage)
    running = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, storage))
    sys.stdout.write(f"http://127.0.0.1:{running.server_address[1]}\n")
    sys.stdout.flush()
    running.serve_forever()
