"""The codecs of arrays, as the engine asks for them.

The modules that implement codecs are imported when values are first needed. A mount answers sooner
without, and a program may never read a value.
"""

from __future__ import annotations

from nczfs.codecs.base import MEMORY_BYTES, Pipeline
from nczfs.model.hierarchy import ArrayDescription


def pipeline_of(array: ArrayDescription, memory_bytes: int = MEMORY_BYTES) -> Pipeline:
    """Return the pipeline that decodes and encodes the chunks of an array.

    Parameters
    ----------
    memory_bytes : that the elements of a chunk may take if they are of variable length.

    Raises
    ------
    UnknownCodec : a codec is not installed, is refused on purpose (``pickle``), or its
        configuration cannot be used. The message names the codec.
    CodecError : chunks have more elements of variable length than memory holds.
    """
    from nczfs.codecs import registry

    return registry.pipeline_of(array, memory_bytes)


def why_only_decoded(array: ArrayDescription) -> str | None:
    """Return why the values of an array can be decoded, and not encoded. None: they can be.

    nczfs does not know a codec, and the metadata say that readers need not: it is left out.
    """
    optional = [spec.name for spec in array.codecs.codecs if not spec.must_understand]
    if not optional:
        return None
    from nczfs.codecs import registry

    return registry.why_unknown(optional)


def check_codecs(array: ArrayDescription) -> None:
    """Refuse codecs with which the elements of an array could not be stored and read again.

    Raises
    ------
    UnknownCodec : a codec is not installed, or its settings are invalid. The message names it.
    CodecError : the codecs cannot encode or cannot decode such elements.
    """
    from nczfs.codecs import wanted

    wanted.check_codecs(array)
