"""The SQL statements that write staged rows to a target table."""

from collections.abc import Iterable
from functools import cached_property

from app.apply.conversion import instant_sql, value_sql
from app.apply.staging import Field, Staging
from app.apply.target_tables import TargetTable
from app.db.sql import literal, quoted

#: one ordinal range of the staging table, both ends inclusive
Range = tuple[int, int]
#: settings of a transaction: the cost of an epoch follows its own size, not the table's. Rows are looked up by their
#: key, also where the planner believes the table to be empty. A scan without index gets a cost so high that it would be
#: compiled: no `jit`
LOOK_UPS = "; ".join(
    f"set local {name} = off" for name in ("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "jit")
)
#: bits of pg_trigger.tgtype: for each row, before, delete
_BEFORE_DELETE = 1 | 2 | 8
#: setting of the transaction: the last table that dropped a change that it was sent; "" for none
SWALLOWED = "surelane.swallowed"


class Merge:
    """SQL of one target table and one staging table. What does not depend on a range is built once."""

    def __init__(self, schema: str, target: TargetTable, staging: Staging, soft_delete: str | None = None) -> None:
        """`soft_delete`: column that a delete sets to the source's time, instead of deleting."""
        self._schema, self.soft_delete = quoted(schema), soft_delete
        #: quoted names of the columns with source time and position
        self.stamps = staging.stamps
        #: names of the staging table and of its column with the ordinal, quoted
        self.staging, self.ordinal = staging.name, staging.ordinal
        self._target = target.quoted_name
        self._takes_merge, self._has_rules = target.takes_merge, target.has_rules
        self._swallowed = f"select set_config({literal(SWALLOWED)}, {literal(str(target))}, true)"
        self._key = target.key
        self._instants = staging.instants
        self._by_name = {field.column.name: field for field in staging.fields}
        self._fields = [field for field in staging.fields if not field.column.generated]
        self._updated = [field for field in self._fields if not field.column.is_counted]

    def upsert(self, ordinals: Range | None = None) -> str:
        """Write the staged rows into the target: all, as they were staged, or an ordinal range, in that order.

        They are staged in the order of their keys, so neighbours in the index are written together, and nothing is
        sorted. MERGE looks up existing rows before it writes, where INSERT ... ON CONFLICT locks each of them: half the
        time. It fails (SQLSTATE 23505) where two staged keys are equal, or another session inserts the row meanwhile.
        """
        if ordinals:
            return f"{self._insert}{self._only(ordinals)} order by s.{self.ordinal}{self._on_conflict}"
        return self._merge if self._takes_merge else f"{self._insert}{self._on_conflict}"

    def checked_upsert(self, ordinals: Range) -> str:
        """As `upsert`; records in SWALLOWED that a row was not taken."""
        if not self.updates:
            return self.upsert(ordinals)
        staged = f"(select count(*) from {self.staging} s{self._only(ordinals)})"  # noqa: S608
        done = f"with done as ({self.upsert(ordinals)} returning 1)"
        return f"{done} {self._swallowed} where (select count(*) from done) <> {staged}"  # noqa: S608

    def patch(self, ordinals: Range | None = None) -> str:
        """UPDATE of the staged columns; fails (SQLSTATE P0002) where a row is missing, since its other columns are
        unknown."""
        where = f"where {self._same_key}{self._only(ordinals, ' and ')}"
        done = f"update {self._target} t set {self._set} from {self.staging} s {where} returning 1"  # noqa: S608
        if not self._set:
            done = f"select from {self._target} t, {self.staging} s {where}"
        return (  # every name in it is quoted by the dialect
            f"with done as ({done})"  # noqa: S608
            f" select {self._schema}.all_there({literal(self._target)}, (select count(*) from done),"
            f" (select count(*) from {self.staging} s{self._only(ordinals)}))"
        )

    def delete(self, ordinals: Range | None = None) -> str:
        """DELETE of the rows whose keys are staged; with `soft_delete` they are marked, unless they are already."""
        condition = f"{self._same_key}{self._only(ordinals, ' and ')}"
        if self.soft_delete is not None:
            return f"{self._marked('s')} from {self.staging} s where {condition}{self._alive}"
        return f"delete from {self._target} t using {self.staging} s where {condition}"  # noqa: S608

    def checked_delete(self, ordinals: Range) -> str:
        """As `delete`; records in SWALLOWED that a row stays.

        Existing rows are counted only where fewer were deleted than are staged: the statement does not see its own
        effect. Postgres refuses it for a table with rules: there a second statement looks for rows that stay.
        """
        if self._has_rules:
            return f"{self.delete(ordinals)}; {self._swallowed} where {self.stays(ordinals)}"
        staged = f"(select count(*) from {self.staging} s{self._only(ordinals)})"  # noqa: S608
        found = (
            f"(select count(distinct (t.tableoid, t.ctid)) from {self._target} t, {self.staging} s"  # noqa: S608
            f" where {self._same_key}{self._only(ordinals, ' and ')}{self._alive})"
        )
        done, gone = f"with done as ({self.delete(ordinals)} returning 1)", "(select count(*) from done)"
        return f"{done} {self._swallowed} where case when {gone} < {staged} then {gone} < {found} else false end"

    def stays(self, ordinals: Range | None = None) -> str:
        """Condition: a row exists whose key is staged."""
        condition = f"{self._same_key}{self._only(ordinals, ' and ')}{self._alive}"
        return f"exists (select from {self._target} t, {self.staging} s where {condition})"

    def kept(self) -> str:
        """Condition, behind a delete of fewer rows than are staged: another one of them is still there. Only a trigger,
        a rule or what stores the rows (a partition, say) can keep one, and the delete has locked the table against new
        ones: where there is none of them, no row is looked up."""
        if self.soft_delete is not None:
            return self.stays()
        trigger = f"select from pg_catalog.pg_trigger g where g.tgrelid = c.oid and g.tgtype & {_BEFORE_DELETE} = "
        return (  # every name in it is quoted by the dialect
            "case when (select c.relkind <> 'r' or c.relhassubclass or c.relhasrules"  # noqa: S608
            f" or exists ({trigger}{_BEFORE_DELETE}) from pg_catalog.pg_class c"
            f" where c.oid = {literal(self._target)}::regclass) then {self.stays()} else false end"
        )

    @property
    def _alive(self) -> str:
        """Condition that goes on another one: the target's row, `t`, is not marked as deleted."""
        return "" if self.soft_delete is None else f" and t.{quoted(self.soft_delete)} is null"

    def _marked(self, alias: str) -> str:
        """UPDATE that marks rows as deleted when the source committed the staged change of this alias."""
        return f"update {self._target} t set {quoted(self.soft_delete or '')} = {self.source_time(alias)}"  # noqa: S608

    def source_time(self, alias: str) -> str:
        """When the source committed the staged change of this alias; of a message without time, when it is applied."""
        return f"coalesce(to_timestamp({alias}.{self.stamps[0]} / 1000.0), now())"

    def rekey(self, old: "Merge", deleted: int, written: int) -> str:
        """UPDATE of the row with the old key to the staged one with ordinal `written`; `old` has the key as `deleted`.

        The source did the same: rows that refer to it stay or follow, and what is not staged keeps its value. Where a
        row has the new key already (the epoch was applied before), the upsert that follows writes it, and the row with
        the old key is deleted. Records in SWALLOWED that it stays.
        """
        is_old, is_new = old.has_key("o"), self.has_key("s")
        staged = f"{old.staging} o, {self.staging} s"
        which = f"o.{old.ordinal} = {deleted} and s.{self.ordinal} = {written} and {is_old}"
        taken = f"select from {self._target} t where {is_new} and not ({is_old})"
        gone = f"delete from {self._target} t using {staged}"  # noqa: S608
        if self.soft_delete is not None:
            gone = f"{self._marked('s')} from {staged}"
        return (  # every name in it is quoted by the dialect
            f"update {self._target} t set {self._assigned(self._updated)}{self._revived(', ')} from {staged}"  # noqa: S608
            f" where {which} and not exists ({taken});"
            f" {gone} where {which} and not ({is_new}){self._alive};"
            f" {self._swallowed} where exists"
            f" (select from {self._target} t, {staged} where {which} and not ({is_new}){self._alive})"
        )

    def has_key(self, alias: str) -> str:
        """Condition: the target's row, `t`, has the key of the staged row with this alias."""
        return " and ".join(f"t.{quoted(name)} = {self._value(self._by_name[name], alias)}" for name in self._key)

    def truncate(self) -> str:
        """DELETE of every row. TRUNCATE would empty the table for readers that began before it, too. Records in
        SWALLOWED that a row stays."""
        if self.soft_delete is not None:
            column = quoted(self.soft_delete)
            marked = f"update {self._target} set {column} = now() where {column} is null"  # noqa: S608
            return f"{marked}; {self._swallowed} where exists (select from {self._target} where {column} is null)"
        return f"delete from {self._target}; {self._swallowed} where exists (select from {self._target})"  # noqa: S608

    @property
    def updates(self) -> bool:
        """Whether an upsert changes an existing row."""
        return bool(self._others) or self.soft_delete is not None

    def _revived(self, before: str) -> str:
        """Assignment: the row is not marked as deleted any more."""
        return "" if self.soft_delete is None else f"{before}{quoted(self.soft_delete)} = null"

    @cached_property
    def _insert(self) -> str:
        columns = ", ".join(quoted(field.column.name) for field in self._fields)
        values = ", ".join(self._value(field) for field in self._fields)
        return (  # every name in it is quoted by the dialect
            f"insert into {self._target} ({columns}) overriding system value"  # noqa: S608
            f" select {values} from {self.staging} s"
        )

    @cached_property
    def _on_conflict(self) -> str:
        others = ", ".join(f"{name} = excluded.{name}" for name in (quoted(one.column.name) for one in self._others))
        changes = f"{others}{self._revived(', ' if others else '')}"
        action = f"update set {changes}" if changes else "nothing"
        return f" on conflict ({', '.join(quoted(name) for name in self._key)}) do {action}"

    @cached_property
    def _merge(self) -> str:
        names = [quoted(field.column.name) for field in self._fields]
        staged = ", ".join(f"{self._value(field)} as {quoted(field.column.name)}" for field in self._fields)
        key = " and ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in self._key)
        others = ", ".join(f"{quoted(one.column.name)} = s.{quoted(one.column.name)}" for one in self._others)
        others += self._revived(", " if others else "")
        matched = f" when matched then update set {others}" if others else ""
        return (  # every name in it is quoted by the dialect
            f"merge into {self._target} t using (select {staged} from {self.staging} s) s"  # noqa: S608
            f" on {key}{matched} when not matched then insert ({', '.join(names)}) overriding system value"
            f" values ({', '.join(f's.{name}' for name in names)})"
        )

    @cached_property
    def _set(self) -> str:
        others = self._assigned(self._others)
        return f"{others}{self._revived(', ' if others else '')}"

    def _assigned(self, fields: Iterable[Field]) -> str:
        return ", ".join(f"{quoted(field.column.name)} = {self._value(field)}" for field in fields)

    @property
    def _others(self) -> list[Field]:
        return [field for field in self._updated if field.column.name not in self._key]

    @cached_property
    def _same_key(self) -> str:
        return self.has_key("s")

    def _value(self, field: Field, alias: str = "s") -> str:
        column, micros = field.column, self._instants.get(field.column.name)
        value = value_sql(column, field.encoding, f"{alias}.{quoted(column.name)}", self._schema)
        if micros is None:
            return value
        number = f"{alias}.{micros.column}"  # not `coalesce`: a domain may refuse NULL
        return f"case when {number} is null then {value} else {instant_sql(column, number)} end"

    def _only(self, ordinals: Range | None, word: str = " where ") -> str:
        return f"{word}s.{self.ordinal} between {ordinals[0]} and {ordinals[1]}" if ordinals else ""
