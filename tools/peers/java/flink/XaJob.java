package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.jdbc.JdbcExactlyOnceOptions;
import org.apache.flink.connector.jdbc.JdbcExecutionOptions;
import org.apache.flink.connector.jdbc.core.datastream.sink.JdbcSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.postgresql.xa.PGXADataSource;

/** The JDBC sink over XA: a prepared transaction each checkpoint, exactly once. Rows are written by the batch. */
public final class XaJob {
  /** Rows are looked up by their key: the planner does not know yet how large the table is. */
  private static final String BY_KEY =
      "-c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off -c jit=off";

  /** Fields are public, so that Flink takes it for a POJO. */
  public static final class Change {
    public String op;
    public long id;
    public String account, amount, status, note;
    /** Microseconds since 1970. */
    public Long updatedAt;
  }

  public static final class Reader extends AbstractDeserializationSchema<Change> {
    private transient ObjectMapper json;

    @Override
    public Change deserialize(byte[] message) throws IOException {
      if (json == null) json = new ObjectMapper();
      JsonNode envelope = json.readTree(message);
      Change change = new Change();
      change.op = envelope.get("op").asText();
      JsonNode row = envelope.get(change.op.equals("d") ? "before" : "after");
      change.id = row.get("id").asLong();
      change.account = row.path("account").asText(null);
      change.amount = row.path("amount").asText(null);
      change.status = row.path("status").asText(null);
      change.note = row.path("note").asText(null);
      change.updatedAt = micros(row.path("updated_at").asText(null));
      return change;
    }

    /** Of "2025-01-01T00:00:00.000000Z", with six digits behind the point or fewer; quicker than Instant.parse. */
    private static Long micros(String text) {
      if (text == null) return null;
      long days = LocalDate.of(digits(text, 0, 4), digits(text, 5, 7), digits(text, 8, 10)).toEpochDay();
      long hours = days * 24 + digits(text, 11, 13);
      long seconds = (hours * 60 + digits(text, 14, 16)) * 60 + digits(text, 17, 19);
      int end = text.length() - 1;
      long micros = end > 20 ? digits(text, 20, end) : 0;
      for (int place = Math.max(end, 20); place < 26; place++) micros *= 10;
      return seconds * 1_000_000 + micros;
    }

    private static int digits(String text, int begin, int end) {
      return Integer.parseInt(text, begin, end, 10);
    }
  }

  /** Rows that one statement writes: an array for each column. */
  public static final class Batch {
    public final List<Change> changes = new ArrayList<>();
  }

  /** Collects rows, in their order, until there are enough or a checkpoint begins. */
  public static final class Collector extends AbstractStreamOperator<Batch>
      implements OneInputStreamOperator<Change, Batch>, BoundedOneInput {
    private final int rows;
    private transient Batch batch;

    Collector(int rows) {
      this.rows = rows;
    }

    @Override
    public void processElement(StreamRecord<Change> change) {
      if (batch == null) batch = new Batch();
      batch.changes.add(change.getValue());
      if (batch.changes.size() >= rows) send();
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpoint) {
      send();
    }

    @Override
    public void endInput() {
      send();
    }

    private void send() {
      if (batch != null) output.collect(new StreamRecord<>(batch));
      batch = null;
    }
  }

  /** Postgres parses the text of a time more slowly than it adds microseconds. */
  private static final String UPDATED_AT = "timestamptz 'epoch' + s.micros * interval '1 microsecond'";

  /** Of several changes of a row the last one counts; rows are written in the order of their keys. */
  private static String statement(String table) {
    return "MERGE INTO " + table + " t USING (SELECT DISTINCT ON (id) * FROM unnest(?::text[], ?::bigint[], ?::text[],"
        + " ?::numeric[], ?::text[], ?::text[], ?::bigint[]) WITH ORDINALITY"
        + " AS v (op, id, account, amount, status, note, micros, place) ORDER BY id, place DESC) s ON t.id = s.id"
        + " WHEN MATCHED AND s.op = 'd' THEN DELETE"
        + " WHEN MATCHED THEN UPDATE SET account = s.account, amount = s.amount, status = s.status, note = s.note,"
        + " updated_at = " + UPDATED_AT
        + " WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT (id, account, amount, status, note, updated_at)"
        + " VALUES (s.id, s.account, s.amount, s.status, s.note, " + UPDATED_AT + ")";
  }

  private static void fill(PreparedStatement statement, Batch batch) throws SQLException {
    List<Change> changes = batch.changes;
    array(statement, 1, "text", changes, change -> change.op);
    array(statement, 2, "int8", changes, change -> change.id);
    array(statement, 3, "text", changes, change -> change.account);
    array(statement, 4, "text", changes, change -> change.amount);
    array(statement, 5, "text", changes, change -> change.status);
    array(statement, 6, "text", changes, change -> change.note);
    array(statement, 7, "int8", changes, change -> change.updatedAt);
  }

  private static void array(
      PreparedStatement statement, int place, String type, List<Change> changes, Function<Change, Object> column)
      throws SQLException {
    Object[] values = changes.stream().map(column).toArray();
    statement.setArray(place, statement.getConnection().createArrayOf(type, values));
  }

  public static void main(String[] arguments) throws Exception {
    Settings settings = new Settings(arguments);
    String url = settings.get("url"), user = settings.get("user");
    StreamExecutionEnvironment flink =
        StreamExecutionEnvironment.getExecutionEnvironment(settings.flink("EXACTLY_ONCE"));
    KafkaSource<Change> source =
        KafkaSource.<Change>builder()
            .setBootstrapServers(settings.get("bootstrap"))
            .setTopics(settings.get("topic"))
            .setGroupId(settings.get("group"))
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new Reader())
            .setProperty("max.partition.fetch.bytes", "16777216")
            .build();
    JdbcExecutionOptions batches =
        JdbcExecutionOptions.builder()
            .withBatchSize(1) // the rows of one statement are collected before
            .withBatchIntervalMs(settings.number("flush_milliseconds"))
            .withMaxRetries(0) // the sink asks for it: a batch is not tried again within its transaction
            .build();
    JdbcExactlyOnceOptions transactions =
        JdbcExactlyOnceOptions.builder().withTransactionPerConnection(true).build(); // Postgres asks for it
    flink
        .fromSource(source, WatermarkStrategy.noWatermarks(), "kafka")
        .transform("collect", TypeInformation.of(Batch.class), new Collector(settings.number("rows")))
        .sinkTo(
            JdbcSink.<Batch>builder()
                .withExecutionOptions(batches)
                .withQueryStatement(statement(settings.get("table")), XaJob::fill)
                .buildExactlyOnce(
                    transactions,
                    () -> {
                      PGXADataSource data = new PGXADataSource();
                      data.setUrl(url);
                      data.setUser(user);
                      data.setOptions(BY_KEY);
                      return data;
                    }));
    flink.execute("xa");
  }
}
