"""The markets that can be asked for by name, and what must be known about each before trusting a result."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

NO_LICENCE: Final = "generated"

CLOSE_ONLY: Final = "close prices only: an order decided on one day's close is filled at the next day's close"


@dataclass(frozen=True)
class Sample:
    """A line of `eigen2 data list`. Synthetic markets have the sizes of the default config and no dates."""

    name: str
    kind: Literal["close", "ohlcv", "synthetic"]
    summary: str
    symbols: int
    days: int
    first: str | None
    last: str | None
    licence: str
    source: str
    caveats: tuple[str, ...]


EMBEDDED: Final[dict[str, Sample]] = {
    sample.name: sample
    for sample in (
        Sample(
            name="sp20",
            kind="close",
            summary="20 large US stocks, daily adjusted close",
            symbols=20,
            days=4781,
            first="2004-01-02",
            last="2022-12-28",
            licence="BSD-3-Clause",
            source="skfolio 1.12.2 (upstream price source not stated)",
            caveats=(
                "survivors: these 20 names were picked knowing that they survived to 2022, so compare with the same "
                "20 names at equal weight, never with an index",
                "dividends are included in the prices; a price index is not a fair comparison",
                "prices are rounded to 0.001, up to about 3 basis points of a daily return around 2006 and more "
                "before",
                CLOSE_ONLY,
            ),
        ),
        Sample(
            name="ohlcv5",
            kind="ohlcv",
            summary="AAPL, FB, GOOG, IBM, MSFT, daily open, high, low, close and volume",
            symbols=5,
            days=3270,
            first="2000-03-01",
            last="2013-03-01",
            licence="BSD-3-Clause (package); Quandl WIKI prices, public domain",
            source="bokeh_sampledata 2026.1",
            caveats=(
                "survivors: five famous names chosen in 2013",
                "adjusted for splits and dividends with factors known only later; returns are right, price levels "
                "and volumes are not what was quoted on the day",
                "GOOG is listed from 2004-08-19 and FB from 2012-05-18 only",
            ),
        ),
        Sample(
            name="etf23",
            kind="close",
            summary="23 exchange-traded funds (countries, sectors, bonds), daily close",
            symbols=23,
            days=2141,
            first="2008-01-02",
            last="2016-07-01",
            licence="MIT",
            source="mlfinpy 0.1.2 (upstream price source not stated)",
            caveats=(
                "adjusted for splits but not for dividends: bond and high-yield funds look worse than they were",
                "funds that closed before 2016 are not in it, though asset classes die less often than companies",
                CLOSE_ONLY,
            ),
        ),
    )
}

_PLANTED = ("made up: skill found here says that a method can learn, not that it makes money", CLOSE_ONLY)

SYNTHETIC: Final[dict[str, Sample]] = {
    name: Sample(
        name, "synthetic", summary, symbols, days, None, None, NO_LICENCE, "generated from a seed", caveats
    )
    for name, summary, symbols, days, caveats in (
        ("planted_reversal", "what fell most over 3 days tends to rise on the next", 12, 3000, _PLANTED),
        ("planted_momentum", "symbols drift up or down in regimes of about 25 days", 12, 3000, _PLANTED),
        ("planted_lead_lag", "some symbols follow others two to five days later", 12, 3000, _PLANTED),
        (
            "shuffled",
            "a sample's days in random order: no skill is possible",
            20,
            4781,
            ("real returns in random order: whatever skill is found here is luck", CLOSE_ONLY),
        ),
        (
            "random_walk",
            "independent returns with a common factor: no skill is possible",
            12,
            3000,
            ("made up, without any pattern: whatever skill is found here is luck", CLOSE_ONLY),
        ),
    )
}

ALIASES: Final = {"planted": "planted_reversal"}


def samples() -> tuple[Sample, ...]:
    """Every market known by name, embedded ones first."""
    return (*EMBEDDED.values(), *SYNTHETIC.values())


def canonical_name(data: str) -> str | None:
    """The catalogue's name for what the user wrote, or None when it must be a file."""
    name = ALIASES.get(data, data)
    return name if name in EMBEDDED or name in SYNTHETIC else None


def known_names() -> tuple[str, ...]:
    return (*EMBEDDED, *SYNTHETIC, *ALIASES)


def nearest_name(data: str) -> str | None:
    found = get_close_matches(data, known_names(), n=1, cutoff=0.5)
    return found[0] if found else None
