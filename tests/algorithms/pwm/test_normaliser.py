import numpy as np

from eigen2.algorithms.pwm.normaliser import Normaliser


def test_statistics_of_pieces_equal_those_of_the_whole():
    data = np.random.default_rng(0).normal(3.0, [0.5, 20.0], (1000, 2))
    pieces = Normaliser(2)
    for piece in np.array_split(data, [7, 100, 640]):
        pieces.update(piece)
    np.testing.assert_allclose(pieces.mean, data.mean(0))
    np.testing.assert_allclose(pieces.deviation, data.std(0))


def test_an_element_that_never_moves_is_not_blown_up():
    still = Normaliser(1)
    still.update(np.full((10, 1), 4.0))
    assert still.deviation[0] == 1e-2


def test_restored_statistics_go_on_exactly():
    stream = np.random.default_rng(1)
    first, second = Normaliser(3), Normaliser(3)
    first.update(stream.normal(size=(5, 4, 3)))
    second.load_state_dict(first.state_dict())
    more = stream.normal(size=(6, 3))
    first.update(more)
    second.update(more)
    np.testing.assert_array_equal(first.mean, second.mean)
    np.testing.assert_array_equal(first.square, second.square)
