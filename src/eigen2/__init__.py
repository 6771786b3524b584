"""Trains reinforcement-learning agents on rented machines and loses nothing."""

import eigen2.envs  # noqa: F401  registers eigen2/Trading-v0
