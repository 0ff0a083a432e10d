import numpy as np

from fedamd.data.seeding import generator


def test_equal_seeds_give_equal_streams_and_others_do_not():
    assert generator(5).integers(1 << 60) == generator(5).integers(1 << 60)
    assert generator(5).integers(1 << 60) != generator(6).integers(1 << 60)


def test_large_seeds_are_taken_whole():
    assert generator(1 << 100).integers(1 << 60) != generator(0).integers(1 << 60)


def test_the_bit_generator_is_fixed():
    assert isinstance(generator(0).bit_generator, np.random.PCG64)
