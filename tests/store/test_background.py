"""One save at a time, and no failure gets lost."""

import errno
import threading

import pytest

from eigen2.store.background import BackgroundSaver


def fail() -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_results_come_back_in_order() -> None:
    with BackgroundSaver[int]() as saver:
        assert saver.submit(lambda: 1) is None
        assert saver.submit(lambda: 2) == 1
        assert saver.wait() == 2
        assert saver.wait() is None


def test_the_caller_goes_on_while_the_job_runs() -> None:
    gate, started = threading.Event(), threading.Event()

    def job() -> int:
        started.set()
        gate.wait()
        return 1

    with BackgroundSaver[int]() as saver:
        saver.submit(job)
        started.wait()
        assert saver.busy
        gate.set()
        assert saver.wait() == 1
        assert not saver.busy


def test_at_most_one_job_is_in_flight() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def job() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1
        return running

    with BackgroundSaver[int]() as saver:
        for _ in range(50):
            saver.submit(job)
    assert most == 1


def test_a_failure_is_raised_once_at_the_next_submit_with_its_errno() -> None:
    ran: list[int] = []

    def run() -> int:
        ran.append(1)
        return 1

    with BackgroundSaver[int]() as saver:
        saver.submit(fail)
        with pytest.raises(OSError, match="No space") as failure:
            saver.submit(run)
        assert failure.value.errno == errno.ENOSPC
        assert saver.submit(lambda: 2) is None
        assert saver.wait() == 2
    assert ran == []


def test_a_failure_is_raised_by_wait_and_by_close() -> None:
    saver = BackgroundSaver[int]()
    saver.submit(fail)
    with pytest.raises(OSError, match="No space"):
        saver.wait()
    saver.submit(fail)
    with pytest.raises(OSError, match="No space"):
        saver.close()


def test_a_failure_at_the_end_of_the_block_is_raised() -> None:
    with pytest.raises(OSError, match="No space"), BackgroundSaver[int]() as saver:
        saver.submit(fail)


def test_an_error_of_the_caller_is_not_hidden_by_one_of_the_save() -> None:
    def train() -> None:
        with BackgroundSaver[int]() as saver:
            saver.submit(fail)
            raise RuntimeError("training broke")

    with pytest.raises(RuntimeError, match="training broke") as error:
        train()
    assert "No space left" in error.value.__notes__[0]
