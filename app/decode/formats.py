"""The formats of messages (`source.format`), a line for each."""

from collections.abc import Mapping

from app.config.settings import Format, SourceSettings
from app.decode.debezium import DebeziumJson
from app.decode.decoder import Decoder

DECODERS: Mapping[Format, type[Decoder]] = {
    Format.DEBEZIUM_JSON: DebeziumJson,
}


def decoder_of(source: SourceSettings, *, transactions: bool) -> Decoder:
    return DECODERS[source.format].of(source, transactions=transactions)
