package peers;

import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.config.JoinConfig;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.seatunnel.common.config.Common;
import org.apache.seatunnel.common.config.DeployMode;
import org.apache.seatunnel.engine.client.SeaTunnelClient;
import org.apache.seatunnel.engine.common.config.ConfigProvider;
import org.apache.seatunnel.engine.common.config.JobConfig;
import org.apache.seatunnel.engine.common.config.SeaTunnelConfig;
import org.apache.seatunnel.engine.server.SeaTunnelServerStarter;

/** A SeaTunnel engine and one job in one process, as `seatunnel.sh -m local` starts them: ENGINE.yaml JOB.conf PORT. */
public final class SeaTunnelJob {
  public static void main(String[] arguments) {
    try {
      run(arguments);
    } catch (Exception failure) {
      failure.printStackTrace();
    } finally {
      System.exit(1); // a job over a topic ends only by a failure
    }
  }

  private static void run(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[2]);
    Common.setDeployMode(DeployMode.CLIENT);
    SeaTunnelConfig engine =
        ConfigProvider.locateAndGetSeaTunnelConfigFromString(Files.readString(Path.of(arguments[0])));
    engine.getHazelcastConfig().setClusterName("bench");
    engine.getHazelcastConfig().getNetworkConfig().setPort(port).setPortAutoIncrement(false);
    engine.getHazelcastConfig().getNetworkConfig().getInterfaces().setEnabled(true).addInterface("127.0.0.1");
    JoinConfig join = engine.getHazelcastConfig().getNetworkConfig().getJoin();
    join.getTcpIpConfig().setEnabled(true).setMembers(List.of("127.0.0.1:" + port));
    SeaTunnelServerStarter.createHazelcastInstance(engine);
    ClientConfig client = ConfigProvider.locateAndGetClientConfig();
    client.setClusterName("bench");
    client.getNetworkConfig().setAddresses(List.of("127.0.0.1:" + port));
    JobConfig job = new JobConfig();
    job.setName("bench");
    System.out.println(
        new SeaTunnelClient(client)
            .createExecutionContext(arguments[1], job, engine)
            .execute()
            .waitForJobCompleteV2()
            .getStatus());
  }
}
