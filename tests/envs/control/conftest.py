import pytest

from eigen2.envs.control.catalogue import TASKS
from eigen2.envs.control.environments import Task


@pytest.fixture(params=sorted(TASKS))
def task(request: pytest.FixtureRequest) -> Task:
    return TASKS[request.param]()
