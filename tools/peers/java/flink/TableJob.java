package peers;

import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** SQL: Debezium JSON from Kafka into a JDBC table, upserts by key; at least once. */
public final class TableJob {
  private static final String COLUMNS = "id BIGINT, account STRING, amount DECIMAL(12, 2), status STRING, note STRING";

  public static void main(String[] arguments) throws Exception {
    Settings settings = new Settings(arguments);
    StreamTableEnvironment sql =
        StreamTableEnvironment.create(
            StreamExecutionEnvironment.getExecutionEnvironment(settings.flink("AT_LEAST_ONCE")));
    sql.executeSql("CREATE TABLE source (" + COLUMNS + ", updated_at TIMESTAMP_LTZ(6)) WITH ("
        + settings.kafka()
        + ", 'format' = 'debezium-json', 'debezium-json.timestamp-format.standard' = 'ISO-8601')");
    sql.executeSql("CREATE TABLE target (" + COLUMNS + ", updated_at TIMESTAMP(6), PRIMARY KEY (id) NOT ENFORCED)"
        + " WITH ("
        + settings.jdbc()
        + ")");
    sql.executeSql("INSERT INTO target SELECT id, account, amount, status, note, CAST(updated_at AS TIMESTAMP(6))"
        + " FROM source").await();
  }
}
