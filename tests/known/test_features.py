"""Feature scalers: scales by hand, and matrices in batches."""

import numpy as np
import pytest
import torch

from attnx.data.batches import collate
from attnx.data.dataset import PairDataset
from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler
from attnx.data.vocabulary import Vocabulary
from tests.refusal import refused

# Five steps. First column 1, 3, 5, 7, 9: mean 5, squares from it 16, 4, 0, 4, 16, mean 8. The second never changes.
FIRST_MATRIX = np.array([[1, -2], [3, -2]], dtype=np.float32)
TWO = np.array([[5, -2], [7, -2], [9, -2]], dtype=np.float32)
MOVES = Vocabulary.of([["up", "down"]])  # down 4, up 5


def steps(count: int) -> tuple[str, ...]:
    """Names of steps."""
    return tuple(map(str, range(count)))


PAIRS = [
    Pair(steps(2), (("up",), ("down", "up")), features=FIRST_MATRIX),
    Pair(steps(3), (("down",),), features=TWO),
]


def test_scales_by_hand():
    """Steps count alike, however many each matrix has; a column that never changes keeps its scale."""
    scaled = FeatureScaler.of([FIRST_MATRIX, TWO])
    assert scaled.mean == pytest.approx((5, -2))
    assert scaled.scale == pytest.approx((8**0.5, 1))
    assert (scaled.width, str(scaled)) == (2, "2 features")
    encoded = scaled.encode(TWO)
    assert encoded.dtype == np.float32
    assert encoded == pytest.approx(np.array([[0, 0], [2, 0], [4, 0]]) / 8**0.5)


def test_small_changes_and_small_units_are_scaled():
    """A million and one, two, three: mean 1,000,002, deviation sqrt(2/3). A billionth and three: mean two, deviation
    one; what is constant, but for rounding, keeps its scale."""
    scaled = FeatureScaler.of(np.array([[[1e6 + 1], [1e6 + 3]], [[1e6 + 2], [1e6 + 2]], [[1e6 + 1], [1e6 + 3]]]))
    assert scaled.mean == (1_000_002,)
    assert scaled.scale == pytest.approx(((4 / 6) ** 0.5,), rel=1e-9)
    scaled = FeatureScaler.of([np.array([[1e-9, 0.1 + 0.2], [3e-9, 0.3]])])
    assert scaled.scale == pytest.approx((1e-9, 1))
    assert scaled.encode(np.array([[3e-9, 0.3]])).tolist() == pytest.approx(np.array([[1, 0]]))


def test_a_scale_needs_values():
    """Not even a scale of nothing."""
    for none in ([], [np.zeros((0, 3))]):
        with pytest.raises(ValueError, match="no steps"):
            FeatureScaler.of(none)
    for wrong in ((), (1.0, 2.0)):
        with pytest.raises(ValueError, match="means and"):
            FeatureScaler(wrong, (1.0,) * (len(wrong) == 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, " is not a file of feature scales...")
            for text in (
                *("[]", '{"mean": [1.0]}', '{"mean": [1.0], "scale": ["one"]}', '{"mean": [], "scale": []}'),
                '{"mean": [1.0], "scale": [1.0, 2.0]}',
            )
        ),
        ("no JSON", "1: not valid JSON..."),
        (None, " no such file"),
    ],
)
def test_another_file_is_no_scale(tmp_path, text, message):
    path = tmp_path / "features.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with refused(f"{path}:{message}"):
        FeatureScaler.load(path)


def dataset(every_reference: bool = True) -> PairDataset:
    """Scaled by 2, from 1 and -2: ONE is then 0 and 1, TWO is 2, 3, 4."""
    return PairDataset.from_pairs(PAIRS, FeatureScaler((1.0, -2.0), (2.0, 1.0)), MOVES, every_reference)


def test_a_row_holds_a_scaled_matrix():
    """One for every reference."""
    rows = dataset()
    assert [rows[i].source.tolist() for i in range(3)] == [
        [[0, 0], [1, 0]],
        [[0, 0], [1, 0]],
        [[2, 0], [3, 0], [4, 0]],
    ]
    assert [rows[i].target.tolist() for i in range(3)] == [[5, 2], [4, 5, 2], [4, 2]]
    assert rows.lengths(np.arange(3)).tolist() == [[2, 2], [2, 3], [3, 2]]
    assert dataset(every_reference=False).lengths(np.arange(2)).tolist() == [[2, 2], [3, 2]]


def test_targets_may_be_features(tmp_path):
    """Scaled on their own, without an end of their own, padded with zeros; and scaled back."""
    inputs = zip(PAIRS, (TWO, FIRST_MATRIX), strict=True)
    pairs = [pair._replace(target=target, references=(steps(len(target)),)) for pair, target in inputs]
    scales = FeatureScaler((3.0, -2.0), (2.0, 4.0), ("x", "y"))
    rows = PairDataset.from_pairs(pairs, FeatureScaler((1.0, -2.0), (2.0, 1.0)), scales, True)
    assert rows.lengths(np.arange(2)).tolist() == [[2, 3], [3, 2]]
    batch = collate([rows[0], rows[1]])
    assert batch.target.tolist() == [[[1, 0], [2, 0], [3, 0]], [[-1, 0], [0, 0], [0, 0]]]
    assert batch.target_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target.dtype == torch.float32
    assert scales.decode(batch.target[0].numpy()).tolist() == TWO.tolist()
    scales.save(tmp_path / "target_features.json")
    assert FeatureScaler.load(tmp_path / "target_features.json") == scales
    changed = [pairs[0], pairs[1]._replace(target=FIRST_MATRIX + 1)]
    assert PairDataset.from_pairs(changed, scales, scales, True).fingerprint() != (
        PairDataset.from_pairs(pairs, scales, scales, True).fingerprint()
    )
    with pytest.raises(ValueError, match="holds no features"):
        PairDataset.from_pairs(PAIRS, scales, scales, True)


def test_a_row_of_zeros_is_not_padding():
    """What is present follows from the lengths: whole rows of the matrix are 0 after scaling."""
    rows = dataset()
    batch = collate([rows[0], rows[2]])
    assert batch.source.tolist() == [[[0, 0], [1, 0], [0, 0]], [[2, 0], [3, 0], [4, 0]]]
    assert batch.source_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.target.tolist() == [[5, 2], [4, 2]]
    assert (batch.source.dtype, batch.target.dtype) == (torch.float32, torch.int64)


def test_a_pair_without_its_matrix_is_refused():
    """Names of steps alone are no features."""
    with pytest.raises(ValueError, match="holds no features"):
        PairDataset.from_pairs([PAIRS[0]._replace(features=None)], FeatureScaler((1.0,), (1.0,)), MOVES, True)
