"""The open lanes of a configuration: one over all partitions, or one for each."""

from collections.abc import Callable, Iterator, Mapping

from app.config.settings import Settings
from app.dispatch.pool import Pool
from app.errors import PartitionAdded
from app.kafka.unread import UnreadMessages
from app.lane.lane import Lane
from app.metrics.lane_metrics import LaneMetrics
from app.model.death import Death
from app.model.offsets import Offsets, Span, TopicPartition
from app.protocol.committer import Committer
from app.supervisor.link import Link
from app.worker.lane_factory import make_lane
from app.worker.lane_writer import LaneWriter
from app.worker.stored_message_decoder import StoredMessages


class OpenLanes:
    """Opens lanes and closes them; divides an epoch among them. Their writers are the caller's."""

    def __init__(self, settings: Settings, metrics: Mapping[str, LaneMetrics], pool: Pool, link: Link) -> None:
        #: `target.tables` as they are now, see `app.shadow`
        self.settings = settings
        self._metrics, self._pool, self._link = metrics, pool, link
        self._lanes: dict[TopicPartition | None, Lane] = {}

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def open(
        self,
        writer: LaneWriter,
        stored: StoredMessages,
        publish: Callable[[float], None] = lambda _: None,
        death: Death | None = None,
        unread: UnreadMessages | None = None,
    ) -> None:
        """Make the lane of an opened writer, in place of its earlier one. The parameters are `make_lane`'s."""
        metrics, pool, link = self._metrics[writer.name], self._pool, self._link
        self._lanes[writer.partition] = make_lane(
            self.settings, writer, metrics, stored, publish, pool, link, death, unread
        )

    def close(self) -> None:
        for lane in self:
            lane.close()

    @property
    def total(self) -> Lane | None:
        """The lane over all partitions; None: each partition has its own."""
        return self._lanes.get(None)

    @property
    def position(self) -> Offsets:
        """The next offset to apply of each partition."""
        return Offsets.joined([lane.position for lane in self])

    @property
    def read(self) -> Offsets:
        """The next offset to read of each partition."""
        return Offsets.joined([lane.read for lane in self])

    def of(self, partition: TopicPartition | None) -> Lane:
        return self._lanes[partition]

    def committers(self) -> list[Committer]:
        return [lane.committer for lane in self]

    def parts(self, span: Span) -> list[tuple[Lane, Span]]:
        """Each lane with its part of an epoch; not the lanes of partitions without messages in it.

        Raises PartitionAdded for a partition without a lane.
        """
        if self.total is not None:
            return [(self.total, span)]
        if strangers := [str(tp) for tp in span.end if tp not in self._lanes]:
            raise PartitionAdded(f"new partition {', '.join(strangers)}")
        return [(self._lanes[tp], span.only({tp})) for tp in span.end if span.end[tp] != span.start[tp]]
