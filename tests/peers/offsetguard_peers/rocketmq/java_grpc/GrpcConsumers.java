import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Real gRPC consumers behind a proxy. The first argument is one JSON object (see grpc_clients.py): `endpoints` and
 * `consumers`. Simple consumers take orders, one JSON object per line on stdin, and answer with one per line: `receive`
 * (until `count` messages are held) and `ack` (of the first `count` held). Push consumers handle by themselves and print
 * how many messages they have begun with; with `lite_topics` they consume lite topics of their topic. `send` sends
 * `count` messages to each of the `lite_topics` of a topic.
 */
public final class GrpcConsumers {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Map<String, SimpleConsumer> SIMPLE = new HashMap<>();
    private static final Map<String, Deque<MessageView>> HELD = new HashMap<>();
    private static final int START_ATTEMPTS = 5;
    private static Producer producer;

    public static void main(String[] arguments) throws Exception {
        JSONObject options = JSON.parseObject(arguments[0]);
        ClientConfiguration configuration = ClientConfiguration.newBuilder()
            .setEndpoints(options.getString("endpoints"))
            .enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(60))
            .build();
        for (Object each : options.getJSONArray("consumers")) {
            start(configuration, (JSONObject) each);
        }
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JSONObject order = JSON.parseObject(line);
            try {
                int count = order.getString("order").equals("send") ? send(configuration, order) : obey(order);
                print("answer", order.getString("group"), "id", order.get("id"), "count", count);
            } catch (Exception error) {
                print("answer", order.getString("group"), "id", order.get("id"), "error", error.toString());
            }
        }
        System.exit(0);
    }

    private static void start(ClientConfiguration configuration, JSONObject spec) throws Exception {
        String group = spec.getString("group");
        Map<String, FilterExpression> topics =
            Collections.singletonMap(spec.getString("topic"), FilterExpression.SUB_ALL);
        if (!spec.getBooleanValue("push")) {
            SIMPLE.put(group, started(() -> PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(topics)
                .build()));
            HELD.put(group, new ArrayDeque<>());
            print("started", group);
            return;
        }
        AtomicLong begun = new AtomicLong();
        MessageListener listener = message -> {
            print("handling", group, "count", begun.incrementAndGet());
            try {
                Thread.sleep(spec.getLongValue("handling_ms"));
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
            return ConsumeResult.SUCCESS;
        };
        if (spec.getJSONArray("lite_topics").isEmpty()) {
            started(() -> PROVIDER.newPushConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setSubscriptionExpressions(topics)
                .setConsumptionThreadCount(spec.getIntValue("threads"))
                .setMessageListener(listener)
                .build());
        } else {
            LitePushConsumer consumer = started(() -> PROVIDER.newLitePushConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .bindTopic(spec.getString("topic"))
                .setConsumptionThreadCount(spec.getIntValue("threads"))
                .setMessageListener(listener)
                .build());
            for (Object lite : spec.getJSONArray("lite_topics")) {
                consumer.subscribeLite((String) lite);
            }
        }
        print("started", group);
    }

    /** A client that runs: a start whose first request comes too late on a busy machine is done again. */
    private static <T> T started(Callable<T> build) throws Exception {
        for (int attempt = 1; ; attempt++) {
            try {
                return build.call();
            } catch (Exception error) {
                if (attempt == START_ATTEMPTS) {
                    throw error;
                }
                System.err.println("start " + attempt + ": " + error);
                Thread.sleep(1000);
            }
        }
    }

    private static int send(ClientConfiguration configuration, JSONObject order) throws Exception {
        String topic = order.getString("topic");
        if (producer == null) {
            producer = started(() ->
                PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build());
        }
        for (Object lite : order.getJSONArray("lite_topics")) {
            for (int index = 0; index < order.getIntValue("count"); index++) {
                producer.send(PROVIDER.newMessageBuilder()
                    .setTopic(topic)
                    .setLiteTopic((String) lite)
                    .setBody("x".getBytes(StandardCharsets.UTF_8))
                    .build());
            }
        }
        return order.getIntValue("count");
    }

    private static int obey(JSONObject order) throws Exception {
        String group = order.getString("group");
        Deque<MessageView> held = HELD.get(group);
        int count = order.getIntValue("count");
        if (order.getString("order").equals("ack")) {
            for (int index = 0; index < count; index++) {
                SIMPLE.get(group).ack(held.remove());
            }
            return count;
        }
        Duration invisible = Duration.ofSeconds(order.getIntValue("invisible_s"));
        int received = 0;
        while (received < count) {
            int most = Math.min(32, count - received);
            for (MessageView message : SIMPLE.get(group).receive(most, invisible)) {
                held.add(message);
                received++;
            }
        }
        return received;
    }

    static synchronized void print(String event, String group, Object... pairs) {
        JSONObject line = new JSONObject(true);
        line.put("event", event);
        line.put("group", group);
        for (int index = 0; index < pairs.length; index += 2) {
            line.put((String) pairs[index], pairs[index + 1]);
        }
        System.out.println(line.toJSONString());
        System.out.flush();
    }
}
