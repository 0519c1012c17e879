"""What a CaptionGenerator leaves to its engine: to encode photos, to search for
captions, and to read given ones.

`keras_sat.search.keras_engine` runs a Captioner's network, `keras_sat.search.ensemble`
those of several, and `keras_sat.export.litert_engine` a LiteRT file. docs/extending.md
shows how to write another one.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from data_utils.base import brief
from keras_sat.checks import ArgumentError
from keras_sat.search.result import SearchResult
from keras_sat.settings import Search

NO_VOTES = "`votes` requires a single captioner, since they are what one network adds up."


class Engine:
    """Computes captions, from arrays to arrays. Subclasses define the methods that
    raise NotImplementedError; `read` only for `attend`.

    Features are an array (photos, regions, feature_dim), or a tuple of such arrays.

    Attributes:
        photo_sizes: list of the sizes (height, width) in which it takes photos.
        photos_together: number of photos in a batch; None: as many as are asked for.
        cannot: what it cannot do, a dict: from the name of an option, or of what it is
            given ("captions", "features"), to a sentence that says why.
        fixed: of these options, those with a value that may be asked for, a dict.
        casts_votes: whether its captioner has a method `with_votes`.
    """

    photo_sizes: list[tuple[int, int]]
    photos_together: int | None = None
    cannot: dict[str, str] = {}
    fixed: dict[str, Any] = {}
    casts_votes = False

    def rows_and_columns(self) -> tuple[int, int]:
        """Return the shape of the attention maps."""
        raise self._lacks("rows_and_columns")

    def encode(self, photos: Any) -> Any:
        """Return the features of photos; where there are none (see `cannot`), what
        `search` takes in their place.

        Args:
            photos: uint8 (photos, height, width, 3), or a dict from each of
                `photo_sizes` to such an array.
        """
        raise self._lacks("encode")

    def search(
        self, features: Any, search: Search, *, numbers: Any, with_consensus: bool = False
    ) -> SearchResult:
        """Return the SearchResult for the features of photos.

        Args:
            search: Search, the options.
            numbers: the photos' numbers among all photos: samples depend on them.
            with_consensus: return all beams, among which consensus chooses later.
        """
        raise self._lacks("search")

    def read(self, features: Any, token_ids: list[list[int]]) -> SearchResult:
        """Return the SearchResult of a given caption for each photo: `token_ids` are
        those of its words and of `<end>`.
        """
        raise self._lacks("read")

    def _lacks(self, method: str) -> NotImplementedError:
        return NotImplementedError(
            f"The engine {type(self).__name__} has no method `{method}`; see `Engine.{method}`."
        )

    def check_features(self, features: Any) -> Any:
        """Return features as they are used here; raise ValueError for a wrong shape."""
        return np.asarray(features)

    def check(self, **asked: Any) -> None:
        """Raise ValueError for what is asked for and this engine cannot do."""
        cannot = self.cannot if self.casts_votes else {"votes": NO_VOTES} | self.cannot
        for name, value in asked.items():
            is_off = value is None or value is False
            is_fixed = name in self.fixed and value == self.fixed[name]
            if name in cannot and not is_off and not is_fixed:
                raise ArgumentError(cannot[name], **{name: value})

    def each(self, function: Callable, items: Any) -> Iterator[Any]:
        """Yield the result of a function for each of a sequence of items, in their
        order.

        An engine may call it for several items at once.
        """
        return map(function, items)


def photos_of_one_size(photos: Any) -> Any:
    """Return photos in the only input size, given as `Engine.encode` takes them."""
    if isinstance(photos, dict):
        (photos,) = photos.values()
    if len(getattr(photos, "shape", ())) != 4:
        raise ValueError(
            "Expected an array of photos (photos, height, width, 3) in the encoder's size, "
            "as data_utils.load_image reads them; encode_each takes paths. Received: "
            f"{brief(photos)}"
        )
    return photos


def padded(token_ids: list[list[int]], length: int, pad_token_id: int) -> np.ndarray:
    """Return lists of ids as an array (captions, length)."""
    array = np.full((len(token_ids), length), pad_token_id, np.int32)
    for row, ids in zip(array, token_ids):
        row[: len(ids)] = ids
    return array
