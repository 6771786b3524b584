"""Files as people have them are read as they are, without flags, to the same last bit; poisoned ones are refused by name."""

from pathlib import Path

import numpy as np
import pytest
from poisoned_prices import POISONED
from price_corpus import CLOSES_ONLY, LAYOUTS, SINGLE, SYMBOLS, truth

from eigen2.errors import DataError
from eigen2.market.check import check_file, read_prices

TRUTH = truth()


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_read_to_the_same_last_bit(name: str, tmp_path: Path) -> None:
    path = LAYOUTS[name](TRUTH, tmp_path)
    prices, warnings = read_prices(path)
    expected = ("AAPL",) if name in SINGLE else SYMBOLS
    assert prices.symbols == expected
    assert [finding.sentence() for finding in warnings if finding.severity == "warning"] == []
    np.testing.assert_array_equal(prices.dates, TRUTH.dates.to_numpy().astype("datetime64[D]"))
    columns = [SYMBOLS.index(symbol) for symbol in prices.symbols]
    fields = {"close"} if name in CLOSES_ONLY else {"open", "high", "low", "close", "volume"}
    assert set(prices.arrays()) == fields
    for field, array in prices.arrays().items():
        np.testing.assert_array_equal(array, getattr(TRUTH, field)[:, columns], err_msg=field)


def test_the_corpus_is_large() -> None:
    assert len(LAYOUTS) >= 20
    assert len(POISONED) >= 10


@pytest.mark.parametrize("name", POISONED)
def test_poisoned_files_are_refused_by_name(name: str, tmp_path: Path) -> None:
    write, words = POISONED[name]
    path = write(TRUTH, tmp_path)
    with pytest.raises(DataError) as refusal:
        read_prices(path)
    wrong = [finding for finding in check_file(path) if finding.severity == "error"]
    assert any(all(word in finding.sentence() for word in words) for finding in wrong), str(refusal.value)
    assert len({finding.sentence() for finding in wrong}) == len(wrong)
