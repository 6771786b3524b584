import pytest

from eigen2.envs.control.catalogue import TASKS


@pytest.fixture(params=sorted(TASKS))
def task(request):
    return TASKS[request.param]()
