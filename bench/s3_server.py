"""`rclone serve s3` on loopback, in a process of its own, over a fresh directory: the server of the cloud benchmarks."""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUCKET = "bench"
KEY, SECRET = "AKIDBENCH1234567", "SECRETBENCH1234567"
RCLONE = Path(sys.executable).with_name("rclone")


@dataclass
class Server:
    address: str
    stored: Path
    """Where the bucket's objects lie as plain files."""
    cpu: float = 0.0
    """CPU seconds it used; known when it has ended."""

    @property
    def environment(self) -> dict[str, str]:
        """What any S3 client needs to reach it, and nothing else of this machine's AWS settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLOUD_"))}
        return {**kept, **credentials(self.address)}


def credentials(address: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{address}", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip


@contextmanager
def serving(below: Path | None = None) -> Iterator[Server]:
    """A server with an empty bucket; what it stored is gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="eigen2-bench-s3-", dir=below))
    (root / BUCKET).mkdir()
    command: list[str | Path] = [RCLONE, "serve", "s3", "--config", "", "--auth-key", f"{KEY},{SECRET}", "--addr", "127.0.0.1:0",
               "--vfs-cache-mode", "off", root]  # fmt: skip
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert running.stdout is not None
    try:
        said = b""
        for line in running.stdout:
            said += line
            if found := re.search(rb"http://(127\.0\.0\.1:[1-9]\d*)", line):
                break
        else:
            raise RuntimeError(f"rclone serve did not start: {said.decode(errors='replace')}")
        # What it says from now on goes nowhere, and must not fill the pipe.
        threading.Thread(target=collections.deque, args=(running.stdout, 0), daemon=True).start()
        server = Server(found[1].decode(), root / BUCKET)
        try:
            yield server
        finally:
            running.kill()
            _, status, usage = os.wait4(running.pid, 0)
            running.returncode = os.waitstatus_to_exitcode(status)
            server.cpu = usage.ru_utime + usage.ru_stime
    finally:
        running.kill()
        running.wait()
        shutil.rmtree(root)
