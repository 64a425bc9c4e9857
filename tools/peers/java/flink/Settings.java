package peers;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;

/** Settings of a job: words key=value, see tools/peers/flink.py. */
final class Settings {
  private final Map<String, String> words = new HashMap<>();

  Settings(String[] arguments) {
    for (String word : arguments) {
      int mark = word.indexOf('=');
      words.put(word.substring(0, mark), word.substring(mark + 1));
    }
  }

  String get(String name) {
    String value = words.get(name);
    if (value == null) throw new IllegalArgumentException("not given: " + name);
    return value;
  }

  int number(String name) {
    return Integer.parseInt(get(name));
  }

  /** Options of a table that reads the topic from its beginning. */
  String kafka() {
    return "'connector' = 'kafka', 'scan.startup.mode' = 'earliest-offset'"
        + option("topic", get("topic"))
        + option("properties.bootstrap.servers", get("bootstrap"))
        + option("properties.group.id", get("group"))
        + option("properties.max.partition.fetch.bytes", "16777216");
  }

  /** Options of a table of Postgres that is written by the batch. */
  String jdbc() {
    return "'connector' = 'jdbc'"
        + option("url", get("url") + "?reWriteBatchedInserts=true")
        + option("username", get("user"))
        + option("password", "none")
        + option("table-name", get("table"))
        + option("sink.buffer-flush.max-rows", get("rows"))
        + option("sink.buffer-flush.interval", get("flush_milliseconds") + " ms");
  }

  private static String option(String name, String value) {
    return ", '" + name + "' = '" + value + "'";
  }

  /** One process. Servers on loopback only, ports as the system gives them. */
  Configuration flink(String checkpointingMode) {
    String[][] settings = {
      {"rest.address", "127.0.0.1"},
      {"rest.bind-address", "127.0.0.1"},
      {"rest.bind-port", "0"},
      {"jobmanager.rpc.address", "127.0.0.1"},
      {"jobmanager.bind-host", "127.0.0.1"},
      {"taskmanager.host", "127.0.0.1"},
      {"taskmanager.bind-host", "127.0.0.1"},
      {"parallelism.default", get("parallelism")}, // the topic has one partition
      {"taskmanager.numberOfTaskSlots", get("parallelism")},
      {"pipeline.object-reuse", "true"},
      {"execution.checkpointing.interval", get("checkpoint_milliseconds") + " ms"},
      {"execution.checkpointing.mode", checkpointingMode},
      {"execution.checkpointing.dir", "file://" + get("checkpoints")},
      {"restart-strategy.type", "none"}, // a failure is to be seen
      {"table.local-time-zone", "UTC"},
      {"table.exec.sink.upsert-materialize", "NONE"}, // the topic is in the order of the keys already
      {"taskmanager.memory.network.min", "64mb"},
      {"taskmanager.memory.network.max", "64mb"},
    };
    Configuration configuration = new Configuration();
    for (String[] setting : settings) configuration.setString(setting[0], setting[1]);
    return configuration;
  }
}
