"""What a person changes through the console: the functions that the verbs call, with who and why."""

import socket
from dataclasses import dataclass

import structlog

from app.cli.caller import Caller
from app.cli.indoubt_view import given_document, given_text
from app.cli.operator_access import check_releasable, in_doubt, quarantine
from app.console import recovery_start
from app.console.parameters import MAX_NUMBERS, Parameters, ranges_of
from app.console.quarantine_reading import open_only
from app.console.recovery_places import RecoveryPlaces
from app.console.recovery_reading import stored_snapshot
from app.console.recovery_start import RecoveryCall
from app.console.served_lanes import ServedLane
from app.errors import Refused
from app.poison.storable_text import storable
from app.recover.answering import Answering
from app.recover.journal import Step, course
from app.recover.recovery_plan import make_plan
from app.recover.verdict import OperatorAnswer

log = structlog.get_logger()

#: most characters of a reason
MAX_REASON_CHARACTERS = 1_000
RELEASE, DISCARD = "release", "discard"


@dataclass(frozen=True, kw_only=True)
class ActionOrder:
    """What a form asks for, and who sent it."""

    who: str
    reason: str
    forced: bool = False

    @property
    def caller(self) -> Caller:
        """As it is on record: a person of the console, not a user of its machine."""
        return Caller(f"console:{self.who}", socket.gethostname())


def order(who: str, reason: str, *, forced: bool) -> ActionOrder:
    """Raises Refused without a reason."""
    text = storable(reason.strip())
    if not text:
        raise Refused("say why: nothing was changed", hint="write the reason; it stays on record")
    if len(text) > MAX_REASON_CHARACTERS:
        raise Refused(f"the reason is longer than {MAX_REASON_CHARACTERS} characters: nothing was changed")
    return ActionOrder(who=who, reason=text, forced=forced)


def answer(lane: ServedLane, gid: str, typed: str, wanted: str, given: ActionOrder) -> str:
    """Answer a prepared transaction as `surelane indoubt commit` and `rollback` do; returns what was done."""
    if typed != gid:
        raise Refused("the name that was typed is not the transaction's: nothing was changed", hint=f"type {gid}")
    if wanted not in [*OperatorAnswer]:
        raise Refused("an answer is commit or rollback: nothing was changed")
    caller = given.caller
    with in_doubt(lane.settings) as (connection, observer):
        answering = Answering(observer, os_user=caller.user, host=caller.host)
        done = answering.give(connection, gid, OperatorAnswer(wanted), reason=given.reason, force=given.forced)
    _logged("answered", lane, given, gid=gid, answer=wanted, number=done.id, forced=done.forced)
    return " ".join(given_text(given_document(done)))


@dataclass(frozen=True, kw_only=True)
class RecoveryForm:
    """What a form says of a recovery."""

    #: the snapshot's name, as a confirmation
    typed: str
    #: of the new place; empty: an earlier recovery is to go on where it is
    name: str
    port: str
    anew: bool


def recover(lane: ServedLane, snapshot: str, form: RecoveryForm, places: RecoveryPlaces, given: ActionOrder) -> None:
    """Start `surelane recover run`, or let it go on. What blocks it is refused here, before a process is begun."""
    if form.typed != snapshot:
        raise Refused("the name that was typed is not the snapshot's: nothing was done", hint=f"type {snapshot}")
    if lane.settings.query is not None:
        raise Refused("a recovery is of the lane, not of a query: nothing was done", hint="open the lane's page")
    stored = stored_snapshot(lane, snapshot)
    driver, begun = stored.manifest.driver, course(stored)
    name = form.name.strip()
    if not name and begun.place is not None:
        name = places.name_of(driver, begun.place.to) or ""
    to = places.place(driver, name) if name or begun.place is None else None
    if form.port and not (form.port.isdecimal() and form.port.isascii() and 0 < int(form.port[:6]) < 1 << 16):
        raise Refused("the port is no number from 1 to 65535: nothing was done")
    with lane.broker() as broker:
        plan = make_plan(lane.settings, stored, broker)
    if not plan.ok:
        wrong = "; ".join(f"{check.what}: {check.said}" for check in plan.checks if not check.ok)
        raise Refused(f"the plan is blocked: {wrong}. Nothing was done")
    if plan.running and not begun.is_done(Step.RESTORE):
        raise Refused(f"stop the lane first: {', '.join(plan.running)} runs. Nothing was done")
    call = RecoveryCall(to=to, port=int(form.port) if form.port else None, foreign=given.forced, anew=form.anew)
    recovery_start.start(lane, stored, call, given.caller, given.reason)
    _logged("recovery", lane, given, snapshot=snapshot, name=name)


def change_entry(lane: ServedLane, number: int, what: str, given: ActionOrder) -> None:
    """Release or discard one entry, as `surelane quarantine release` and `discard` do."""
    _change(lane, [number], what, given)


def change_entries(lane: ServedLane, asked: Parameters, expected: int, what: str, given: ActionOrder) -> str:
    """The same with all open entries that the filters keep; returns their numbers. Raises Refused where there are not
    as many as the person has seen."""
    filters = open_only(asked.quarantine_filter())
    with quarantine(lane.settings) as (connection, operator):
        found = operator.ids(connection, filters) if filters is not None else []
    if len(found) != expected:
        raise Refused(
            f"the page showed {expected} entries, now there are {len(found)}: nothing was changed",
            hint="look at the list again",
        )
    if len(found) > MAX_NUMBERS:
        raise Refused(
            f"these are more than {MAX_NUMBERS}: nothing was changed", hint="narrow the filters, part by part"
        )
    if not found:
        raise Refused("no entry can be changed: nothing was changed")
    _change(lane, found, what, given)
    return ranges_of(found)


def _change(lane: ServedLane, entries: list[int], what: str, given: ActionOrder) -> None:
    if what not in (RELEASE, DISCARD):
        raise Refused("an entry is released or discarded: nothing was changed")
    if what == RELEASE:
        check_releasable(lane.settings)
    who = str(given.caller)
    with quarantine(lane.settings) as (connection, operator):
        if what == RELEASE:
            operator.request_release(connection, entries, who, given.reason, forced=given.forced)
        else:
            operator.discard(connection, entries, who, given.reason)
    _logged(what, lane, given, entries=ranges_of(entries)[:500])


def _logged(what: str, lane: ServedLane, given: ActionOrder, **more: object) -> None:
    log.info("console action", what=what, lane=lane.name, who=given.who, reason=given.reason, **more)
