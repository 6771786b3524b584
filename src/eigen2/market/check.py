"""placeholder until the reader is written"""

from pathlib import Path

from eigen2.market.prices import Prices


class Finding:
    def sentence(self) -> str:
        return ""


def read_prices(path: Path) -> tuple[Prices, list[Finding]]:
    raise NotImplementedError
