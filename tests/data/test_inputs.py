"""Inputs for a trained run: the same rows by `encode` and by `read`, and labelled data against the run's classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from canon.data.config import DataConfig
from canon.data.encodings.pixels import PixelSchema
from canon.data.read import inputs, labelled
from canon.data.schema import Schema
from canon.data.targets import Class
from canon.errors import CanonError
from tests.data.makers import idx_folder, image_folder
from tests.reading import read_as

CONFIG = DataConfig()


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Schema, Path, np.ndarray]:
    path = tmp_path / "t.csv"
    path.write_text("x,kind,label\n" + "".join(f"{i / 2},{'ab'[i % 2]},{'np'[i % 2]}\n" for i in range(20)))
    data = read_as(DataConfig(source=str(path), valid=0.0, test=0.0), "features")
    return data.schema, path, np.asarray(data.splits["train"]["input"])


def test_tables_with_and_without_a_label(trained: tuple[Schema, Path, np.ndarray], tmp_path: Path) -> None:
    schema, path, expected = trained
    columns, names = inputs(schema, [path], CONFIG)
    np.testing.assert_array_equal(columns["input"], expected)
    assert names[0] == f"{path}, row 1"
    bare = tmp_path / "bare.csv"
    bare.write_text("kind,extra,x\nb,?,1.5\nz,?,5\n")
    columns, _ = inputs(schema, [bare, str(path)], CONFIG)
    np.testing.assert_array_equal(np.asarray(columns["input"])[0], expected[3])
    assert np.asarray(columns["input"])[1, 1:].tolist() == [0.0, 0.0] and len(columns["input"]) == 22
    with pytest.raises(CanonError, match=r'bare\.csv has no column "label", which is the label'):
        labelled(schema, bare, CONFIG)


def test_labelled_tables(trained: tuple[Schema, Path, np.ndarray], tmp_path: Path) -> None:
    schema, path, expected = trained
    columns = labelled(schema, path, CONFIG)
    np.testing.assert_array_equal(columns["input"], expected)
    assert np.asarray(columns["target"]).tolist() == [i % 2 for i in range(20)]
    wrong = tmp_path / "reviews.csv"
    wrong.write_text("x,kind,label\n1,a,n\n2,a,5 stars\n")
    with pytest.raises(CanonError) as caught:
        labelled(schema, wrong, CONFIG)
    assert str(caught.value) == f'{wrong}, line 3: label "5 stars" is not one of n, p.'


def test_a_number_that_is_none(trained: tuple[Schema, Path, np.ndarray], tmp_path: Path) -> None:
    wrong = tmp_path / "w.csv"
    wrong.write_text("x,kind\n1,a\nold,a\n")
    with pytest.raises(CanonError, match='line 3: column "x" must be a number, got "old"'):
        inputs(trained[0], [wrong], CONFIG)
    wrong.write_text("kind\na\n")
    with pytest.raises(CanonError, match='has no column "x", which the training data had'):
        inputs(trained[0], [wrong], CONFIG)


def test_image_files_take_the_schemas_form(tmp_path: Path) -> None:
    schema = PixelSchema(Class(("cat", "dog")), (1, 4, 4))
    folder = image_folder(tmp_path / "pets", count=2)
    columns, names = inputs(schema, [folder, folder / "dog" / "1.png"], CONFIG)
    assert columns["input"].shape == (5, 1, 4, 4) and names[-1] == str(folder / "dog" / "1.png")
    with Image.open(folder / "dog" / "1.png") as image:
        expected = np.asarray(image.convert("L").resize((4, 4), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(np.asarray(columns["input"])[-1, 0], expected)
    other = labelled(schema, folder, CONFIG)
    assert np.asarray(other["target"]).tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(other["input"], np.asarray(columns["input"])[:4])


def test_image_files_take_the_scale_of_digits(tmp_path: Path) -> None:
    schema = read_as(DataConfig(source="digits"), "pixels").schema
    ramp = np.linspace(0, 255, 64).reshape(8, 8).astype(np.uint8)
    Image.fromarray(ramp).save(tmp_path / "d.png")
    columns, _ = inputs(schema, [tmp_path / "d.png"], CONFIG)
    np.testing.assert_array_equal(np.asarray(columns["input"])[0, 0], np.rint(ramp / 255 * 16))
    own = labelled(schema, Path("digits"), CONFIG)
    assert len(own["target"]) == 1797 and np.asarray(own["input"]).max() == 16


def test_idx_folders(tmp_path: Path) -> None:
    arrays = idx_folder(tmp_path / "m")
    schema = PixelSchema(Class(("0", "1", "2")), (1, 5, 4))
    columns = labelled(schema, tmp_path / "m", CONFIG)
    np.testing.assert_array_equal(np.asarray(columns["input"])[:, 0], arrays["t10k-images-idx3-ubyte"])
    same, _ = inputs(schema, [tmp_path / "m" / "t10k-images-idx3-ubyte.gz"], CONFIG)
    np.testing.assert_array_equal(same["input"], columns["input"])
    with pytest.raises(CanonError, match="has images of 1 x 5 x 4, the run was trained on 1 x 8 x 8"):
        labelled(PixelSchema(Class(("0", "1", "2")), (1, 8, 8)), tmp_path / "m", CONFIG)


def test_classes_that_training_did_not_have(tmp_path: Path) -> None:
    schema = PixelSchema(Class(("cat", "dog")), (3, 8, 8))
    with pytest.raises(CanonError, match='class "fox" is not one of cat, dog'):
        labelled(schema, image_folder(tmp_path / "pets", ("cat", "fox")), CONFIG)


def test_the_wrong_kind(trained: tuple[Schema, Path, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"The run reads tables, but .*pets is a set of images"):
        labelled(trained[0], image_folder(tmp_path / "pets"), CONFIG)
    with pytest.raises(CanonError, match=r'There is no file or folder "nothing\.csv"\.'):
        inputs(trained[0], ["nothing.csv"], CONFIG)
