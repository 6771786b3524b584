"""A module that an env.id can name. Whoever imports it is found out by a file."""

import os
from pathlib import Path

if "OWN_TASKS_IMPORTED" in os.environ:
    Path(os.environ["OWN_TASKS_IMPORTED"]).touch()
