package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.connector.jdbc.JdbcExactlyOnceOptions;
import org.apache.flink.connector.jdbc.JdbcExecutionOptions;
import org.apache.flink.connector.jdbc.core.datastream.sink.JdbcSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.postgresql.xa.PGXADataSource;

/** The JDBC sink over XA: a prepared transaction each checkpoint, exactly once. */
public final class XaJob {
  /** Fields are public, so that Flink takes it for a POJO. */
  public static final class Change {
    public String op;
    public long id;
    public String account, amount, status, note, updatedAt;
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
      change.updatedAt = row.path("updated_at").asText(null);
      return change;
    }
  }

  /** The sink takes a single statement: this one upserts or deletes. */
  private static String statement(String table) {
    return "WITH v (op, id, account, amount, status, note, updated_at) AS"
        + " (VALUES (?::text, ?::bigint, ?::text, ?::numeric, ?::text, ?::text, ?::timestamptz)),"
        + " gone AS (DELETE FROM " + table + " t USING v WHERE v.op = 'd' AND t.id = v.id)"
        + " INSERT INTO " + table + " SELECT id, account, amount, status, note, updated_at FROM v WHERE op <> 'd'"
        + " ON CONFLICT (id) DO UPDATE SET account = excluded.account, amount = excluded.amount,"
        + " status = excluded.status, note = excluded.note, updated_at = excluded.updated_at";
  }

  private static void fill(PreparedStatement statement, Change change) throws SQLException {
    statement.setString(1, change.op);
    statement.setLong(2, change.id);
    statement.setString(3, change.account);
    statement.setString(4, change.amount);
    statement.setString(5, change.status);
    statement.setString(6, change.note);
    statement.setString(7, change.updatedAt);
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
            .withBatchSize(settings.number("rows"))
            .withBatchIntervalMs(settings.number("flush_milliseconds"))
            .withMaxRetries(0) // the sink asks for it: a batch is not tried again within its transaction
            .build();
    JdbcExactlyOnceOptions transactions =
        JdbcExactlyOnceOptions.builder().withTransactionPerConnection(true).build(); // Postgres asks for it
    flink
        .fromSource(source, WatermarkStrategy.noWatermarks(), "kafka")
        .sinkTo(
            JdbcSink.<Change>builder()
                .withExecutionOptions(batches)
                .withQueryStatement(statement(settings.get("table")), XaJob::fill)
                .buildExactlyOnce(
                    transactions,
                    () -> {
                      PGXADataSource data = new PGXADataSource();
                      data.setUrl(url);
                      data.setUser(user);
                      return data;
                    }));
    flink.execute("xa");
  }
}
