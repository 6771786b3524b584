"""The boto3 contestant of bench/upload.py: every file below a directory, from a pool of threads over one client.

python bench/upload_boto3.py DIRECTORY BUCKET PREFIX
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

THREADS = 8


def main() -> None:
    directory, bucket, prefix = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    client = boto3.client("s3", config=Config(max_pool_connections=2 * THREADS, retries={"mode": "standard"}))
    files = [path for path in directory.rglob("*") if path.is_file()]
    # A few files: parts of each side by side. Many: the files themselves.
    many = len(files) >= THREADS
    transfer = TransferConfig(max_concurrency=THREADS, use_threads=not many)

    def upload(path: Path) -> None:
        client.upload_file(
            str(path), bucket, f"{prefix}/{path.relative_to(directory).as_posix()}", Config=transfer
        )

    with ThreadPoolExecutor(THREADS if many else 1) as pool:
        for _ in pool.map(upload, files):
            pass


if __name__ == "__main__":
    main()
