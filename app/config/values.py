"""Validators of single values. Each raises a fault with the problem and what to type instead.

A fault is pydantic's custom error, so that one validation collects all faults; the hint is in its context.
"""

import datetime
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic_core import PydanticCustomError
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from app.config.credentials import QUERY_KEY, PasswordFrom, PasswordInvalid, checked_url, needs_aws
from app.config.on_skip import OnSkip, SkipPolicy
from app.config.redaction import Redaction
from app.config.routes import RouteInvalid, Routes
from app.model.gid import LANE_NAME
from app.model.offsets import Offsets

#: options that the lane sets; an operator's value would break order or exactly-once
RESERVED_OPTIONS = frozenset(
    {
        "kafka.bootstrap.servers",
        "kafka.isolation.level",
        "kafka.group.id",
        "kafka.auto.offset.reset",
        "kafka.enable.auto.commit",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
    }
)
#: options of Spark's Kafka source that are not options of the Kafka client, and are safe
SPARK_OPTIONS = frozenset(
    {"kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix"}
)
#: options that the lane sets for dead letters, with the cluster
RESERVED_PRODUCER_OPTIONS = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "transactional.id",
        "message.timeout.ms",
        "delivery.timeout.ms",
    }
)
#: Postgres truncates longer names silently
MAX_NAME_BYTES = 63
_DRIVER = "postgresql+psycopg2"
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,/]+):(\d{1,5})")
_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_INTERVAL = re.compile(r"\d+ +(milliseconds?|seconds?|minutes?|hours?)")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")


def fault(problem: str, hint: str) -> PydanticCustomError:
    """A fault of one key; `problem` and `hint` are printed and must not contain a secret."""
    return PydanticCustomError("fault", "{problem}", {"problem": problem, "hint": hint})


def lane_name(text: str) -> str:
    """A name that can be part of a gid."""
    if not LANE_NAME.fullmatch(text):
        raise fault(
            f"{text!r} cannot name a lane: it becomes part of the names of prepared transactions",
            f"it must match {LANE_NAME.pattern}: a small letter first, then small letters, digits, _ and -, at most 63",
        )
    return text


def bootstrap_servers(text: str) -> str:
    """`host:port`, comma-separated; blanks are removed."""
    servers = [server.strip() for server in text.split(",")]
    bad = [server for server in servers if not _SERVER.fullmatch(server)]
    if bad:
        raise fault(f"{', '.join(map(repr, bad))} is not host:port", 'write it like "broker1:9092,broker2:9092"')
    return ",".join(servers)


def names(value: object) -> object:
    """A list, or comma-separated text (in the environment)."""
    return tuple(filter(None, (part.strip() for part in value.split(",")))) if isinstance(value, str) else value


def topic_pattern(text: str) -> str:
    """A regular expression for Java (Spark) and Python (lag, doctor)."""
    try:
        re.compile(text)
    except re.error as error:
        raise fault(f"not a regular expression: {error}", r"it must match whole topic names, like shop\..*") from None
    return text


def start(value: object) -> object:
    """`earliest`, `latest`, or offsets as `{topic: {partition: offset}}`."""
    if not isinstance(value, Mapping) or isinstance(value, Offsets):
        return value
    nested: Mapping[str, Any] = value
    try:
        return Offsets.from_nested(nested)
    except (ValueError, TypeError, AttributeError):
        hint = "write {topic: {partition: offset}}, like {shop.cdc: {0: 1200}}; the offset is the next message to read"
        raise fault("not a map of offsets (whole numbers, none negative)", hint) from None


def source_options(options: dict[str, str]) -> dict[str, str]:
    """Options of the Kafka client (`kafka.*`) and of Spark's source that the operator may set."""
    for name in options:
        if name in RESERVED_OPTIONS:
            raise fault(f"{name} is set by Surelane itself", "remove it; see source.* for what can be chosen")
        if not name.startswith("kafka.") and name not in SPARK_OPTIONS:
            raise fault(f"{name} is not an option of the Kafka client", f"did you mean kafka.{name}?")
    return options


def topic_name(text: str) -> str:
    """A valid name of a Kafka topic."""
    if not _TOPIC.fullmatch(text):
        raise fault(f"{text!r} cannot name a topic", "letters, digits, dots, _ and -, at most 249")
    return text


def producer_options(options: dict[str, str]) -> dict[str, str]:
    """Options of librdkafka's producer that the operator may set; the client rejects unknown ones."""
    for name in options:
        if name in RESERVED_PRODUCER_OPTIONS:
            raise fault(f"{name} is set by Surelane itself", "remove it")
        if name.startswith("kafka."):
            raise fault(f"{name} is no setting of librdkafka", f"did you mean {name.removeprefix('kafka.')}?")
    return options


def texts(value: object) -> object:
    """A map's scalars as text for Spark and Kafka: true -> "true", 5 -> "5"."""
    return {str(key): _text(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _text(item: object) -> object:
    if isinstance(item, bool):
        return str(item).lower()
    return str(item) if isinstance(item, int | float) else item


def postgres_url(value: object) -> URL:
    """A SQLAlchemy URL of the psycopg2 driver. Faults show no part of the text, which may contain a password."""
    example = f"write it like {_DRIVER}://user:password@host:5432/database"
    try:
        url = value if isinstance(value, URL) else make_url(str(value))
    except (ArgumentError, ValueError):
        raise fault("not a database URL (not shown: it may hold a password)", example) from None
    if url.drivername not in {_DRIVER, "postgresql", "postgres"}:
        raise fault(f"{url.drivername} is not supported, the target is Postgres with psycopg2", example)
    if not url.database:
        raise fault("the URL names no database", example)
    try:
        return checked_url(_password_in_its_place(url.set(drivername=_DRIVER)))
    except PasswordInvalid as error:
        raise fault(error.problem, error.hint) from None


def password_from(text: str) -> str:
    """A source of a password that this machine can read."""
    try:
        PasswordFrom.parse(text).check()
    except PasswordInvalid as error:
        raise fault(error.problem, error.hint) from None
    return text


def with_password_from(url: URL, place: str | None) -> URL:
    """`url` with the source `place` of its password."""
    if place is None:
        return url
    if QUERY_KEY in url.query:
        return url  # derived from another URL, with its query
    return postgres_url(url.update_query_dict({QUERY_KEY: place}))


def _password_in_its_place(url: URL) -> URL:
    """Move `?password=`, which libpq accepts, to where SQLAlchemy does not print it."""
    if "sslpassword" in url.query:
        raise fault("sslpassword in a URL would be shown", "use a key without a password, readable by this user only")
    in_query = url.query.get("password")
    if in_query is None:
        return url
    return url.difference_update_query(["password"]).set(password=str(in_query))


def name(text: str) -> str:
    """A Postgres name as stored: case-sensitive, quoted in all SQL."""
    if not text or len(text.encode()) > MAX_NAME_BYTES:
        raise fault(
            f"{text!r} is not a Postgres name", f"1 to {MAX_NAME_BYTES} bytes, as in pg_catalog, without quotes"
        )
    return text


def schema_name(text: str) -> str:
    """The schema of Surelane's own tables: Postgres reserves `pg_`."""
    if text.startswith("pg_") or text == "information_schema":
        raise fault(f"{text!r} belongs to Postgres", "choose another schema; `surelane migrate` creates it")
    return name(text)


def routes(tables: dict[str, str], own: str | None = None) -> dict[str, str]:
    """Routes source schema.table -> target schema.table; `own`: schema of Surelane's own tables."""
    try:
        Routes(tables, own)
    except RouteInvalid as error:
        raise fault(error.problem, error.hint) from None
    return tables


def redacted(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Source columns whose values are not shown."""
    try:
        Redaction(patterns)
    except RouteInvalid as error:
        raise fault(error.problem, error.hint) from None
    return patterns


def on_skip_tables(tables: dict[str, OnSkip]) -> dict[str, OnSkip]:
    """Source schema.table -> policy after a skip."""
    try:
        SkipPolicy(OnSkip.CONTINUE, tables)
    except RouteInvalid as error:
        raise fault(error.problem, error.hint) from None
    return tables


def tables(rules: dict[str, Any]) -> dict[str, Any]:
    """Keys are schema.table."""
    for pattern in rules:
        schema, _, table = pattern.partition(".")
        if not (schema and table):
            raise fault(f"{pattern!r} is not a schema.table", 'write it like "public.orders"')
    return rules


def target_table(text: str) -> str:
    """`schema.table`."""
    schema, _, table = text.partition(".")
    if not (schema and table):
        raise fault(f"{text!r} is not a schema.table", 'write it like "reports.orders"')
    return text


def rename(names: dict[str, str]) -> dict[str, str]:
    """Column -> new name; new names are unique."""
    if len(set(names.values())) < len(names):
        raise fault("two columns get the same name", "give each a name of its own")
    return names


def interval(text: str) -> str:
    """A Spark interval of the processing-time trigger."""
    if not _INTERVAL.fullmatch(text.strip()):
        raise fault(f"{text!r} is not an interval", 'write it like "0 seconds" (no pause) or "500 milliseconds"')
    return text.strip()


def duration(value: object) -> datetime.timedelta:
    """A duration, written as an interval."""
    if isinstance(value, datetime.timedelta):
        return value
    text = str(value).strip()
    if not _INTERVAL.fullmatch(text):
        raise fault(f"{text!r} is not a length of time", 'write it like "30 seconds", "500 milliseconds", "2 minutes"')
    number, unit = text.split()
    return datetime.timedelta(**{f"{unit.removesuffix('s')}s": int(number)})


def longer_than_nothing(value: datetime.timedelta) -> datetime.timedelta:
    """A duration that is not zero."""
    if not value:
        raise fault("no time at all", 'write it like "1 second"')
    return value


#: schemes of Hadoop's file systems over S3
_OBJECT_STORES = ("s3", "s3a", "s3n")


def location(text: str) -> str:
    """A directory: a URL unchanged, a path made absolute. Not in an object store, whose renames are copies: checkpoint
    entries and the replacement of an old checkpoint need atomic renames."""
    if text.partition(":")[0].lower() in _OBJECT_STORES:
        raise fault(
            f"{text!r} is in an object store, which has no atomic rename: a lane's checkpoint was never run on one",
            "write a path on a disk that outlives the process (a volume, EBS, EFS), or hdfs://...",
        )
    return text if _SCHEME.match(text) else str(Path(text).expanduser().absolute())


#: file systems of savepoints, and the options that a URI may have
_PLACES = {
    "s3": {"endpoint_override", "region", "scheme"},
    "gs": {"endpoint_override", "retry_limit_seconds", "scheme"},
    "hdfs": {"kerb_ticket", "replication", "user"},
    "file": set[str](),
}
_PLACE_EXAMPLES = {
    "s3": "s3://bucket/savepoints?region=eu-central-1",
    "gs": "gs://bucket/savepoints",
    "hdfs": "hdfs://namenode:8020/savepoints",
    "file": "file:///var/lib/surelane/savepoints",
}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
#: of a URI, between its slashes
_AUTHORITY = {
    "s3": _BUCKET,
    "gs": _BUCKET,
    "hdfs": re.compile(r"[a-zA-Z0-9._-]+(:\d{1,5})?"),
    "file": re.compile("(?!)"),
}


def folder(text: str) -> str:
    """A folder of this machine, made absolute."""
    if _SCHEME.match(text):
        raise fault(f"{text!r} is no folder of this machine", "write a path like /var/lib/surelane/snapshots")
    return str(Path(text).expanduser().absolute())


def place(text: str) -> str:
    """A folder of this machine, made absolute, or a URI of a file system that PyArrow opens. A URI is shown in errors
    and documents, so it must not contain a login; faults show no part of it."""
    scheme, colon, _ = text.partition(":")
    if not colon or not (_SCHEME.match(text) or scheme.lower() in _PLACES):
        return str(Path(text).expanduser().absolute())
    if "@" in text:
        hint = "the environment has the login: AWS_ACCESS_KEY_ID, a profile, the machine's role, a Kerberos ticket"
        raise fault("a URI with a login (not shown) would be shown", hint)
    if scheme not in _PLACES:
        raise fault(
            f"{scheme}: is no file system for savepoints", f"write a path, or a URI of one of {', '.join(_PLACES)}"
        )
    parts, options = urlsplit(text), _PLACES[scheme]
    if scheme == "file" and parts.netloc in ("", "localhost") and not (parts.query or parts.fragment):
        return unquote(parts.path)
    if not _AUTHORITY[scheme].fullmatch(parts.netloc) or parts.fragment:
        raise fault(f"not a URI of {scheme}:", f"write it like {_PLACE_EXAMPLES[scheme]}")
    if other := sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} - options):
        raise fault(f"{', '.join(map(repr, other))} cannot be set in it", f"after ?: {', '.join(sorted(options))}")
    return text


def function(text: str) -> str:
    """`module:function`."""
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), name]):
        raise fault(f"{text!r} does not name a function", "write module:function, e.g. rules.shop:clean")
    return text


def transform(value: Any) -> Any:
    """Expand a bare `module:function` to the section."""
    return {"function": value} if isinstance(value, str) else value


def security(value: Any) -> Any:
    """Expand a bare protocol to the section."""
    return {"protocol": value} if isinstance(value, str) else value


def has_its_libraries(protocol: Any) -> Any:
    """A protocol whose libraries are installed."""
    try:
        if protocol == "msk-iam":
            needs_aws("msk-iam", "boto3", "aws_msk_iam_sasl_signer")
    except PasswordInvalid as error:
        raise fault(error.problem, error.hint) from None
    return protocol


def certificates(text: str) -> str:
    """A file of certificates (PEM), made absolute."""
    return _pem(text, "-----BEGIN CERTIFICATE-----", "openssl x509 -in FILE -out FILE.pem writes it as PEM")


def private_key(text: str) -> str:
    """A file with a private key as PKCS#8, the only form that Java reads, made absolute."""
    hint = "openssl pkcs8 -topk8 -nocrypt -in FILE -out FILE.pem writes it as PKCS#8"
    return _pem(text, "-----BEGIN (ENCRYPTED )?PRIVATE KEY-----", hint)


def _pem(text: str, form: str, hint: str) -> str:
    path = Path(text).expanduser().absolute()
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise fault(f"{path} cannot be read: {type(error).__name__}", "check the path and its permissions") from None
    if not re.search(form, content):
        raise fault(f"{path} is not of the form that is needed", hint)
    return str(path)


def region(text: str) -> str:
    """A region of AWS."""
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d+", text):
        raise fault(f"{text!r} is no region of AWS", "write it like eu-central-1")
    return text
