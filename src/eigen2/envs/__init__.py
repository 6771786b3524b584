"""Environments: trading over a market, control tasks, and any Gymnasium environment.

Importing this registers ours with Gymnasium, as its packages do: `import eigen2; gymnasium.make("eigen2/Trading-v0")`.
"""

from eigen2.envs.registration import register_with_gymnasium

register_with_gymnasium()
