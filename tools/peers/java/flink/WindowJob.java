package peers;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** SQL: JSON from Kafka, counted by minute and key with RocksDB, into a JDBC table: each window once it has ended. */
public final class WindowJob {
  public static void main(String[] arguments) throws Exception {
    Settings settings = new Settings(arguments);
    Configuration flink = settings.flink("EXACTLY_ONCE");
    flink.setString("state.backend.type", "rocksdb");
    flink.setString("execution.checkpointing.incremental", "true");
    flink.setString("table.exec.source.idle-timeout", "500 ms"); // of a source without a partition
    flink.setString("taskmanager.memory.managed.size", settings.get("state_megabytes") + "mb");
    StreamTableEnvironment sql =
        StreamTableEnvironment.create(StreamExecutionEnvironment.getExecutionEnvironment(flink));
    sql.executeSql("CREATE TABLE source (`key` BIGINT, `at` TIMESTAMP_LTZ(3),"
        + " WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND) WITH ("
        + settings.kafka()
        + ", 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601')");
    sql.executeSql("CREATE TABLE target (`minute` TIMESTAMP(3), `key` BIGINT, n BIGINT,"
        + " PRIMARY KEY (`minute`, `key`) NOT ENFORCED) WITH ("
        + settings.jdbc()
        + ")");
    sql.executeSql("INSERT INTO target SELECT CAST(window_start AS TIMESTAMP(3)), `key`, COUNT(*)"
        + " FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(`at`), INTERVAL '1' MINUTE))"
        + " GROUP BY window_start, window_end, `key`").await();
  }
}
