"""Whether there is a model at all, as its topics tell. Pure."""

from collections.abc import Container

from producer_sdk.errors import UnknownModel
from producer_sdk.topics import Topics


def check_has_topics(model: str, topics: Topics, names: Container[str]) -> None:
    """`names` are those of all topics.

    Raises:
        UnknownModel: the model has no request topic among them.
    """
    if not any(topic in names for topic in topics.lanes(model)):
        raise UnknownModel(
            f"there is no request topic of a model {model!r} under the prefix {topics.prefix!r}: see "
            "`headrace topics list` for those there are"
        )
