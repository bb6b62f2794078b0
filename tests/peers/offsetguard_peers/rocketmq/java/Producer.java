import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.exception.RemotingSendRequestException;

/**
 * A real producer that takes orders: one JSON object per line on stdin (see clients.py), one JSON answer per line on
 * stdout. Orders run side by side, so a slow one with a rate does not hold up others. It ends with its input.
 */
public final class Producer {
    private static final int ATTEMPTS = 5;
    private static JSONObject options;
    private static TransactionMQProducer neverEnding;

    public static void main(String[] arguments) throws Exception {
        options = JSON.parseObject(arguments[0]);
        RPCHook signing = Consumers.signing(options);
        DefaultMQProducer producer = signing == null
            ? new DefaultMQProducer("offsetguard-test-producer")
            : new DefaultMQProducer("offsetguard-test-producer", signing);
        producer.setNamesrvAddr(options.getString("namesrv"));
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.setSendMsgTimeout(60_000);
        producer.setRetryTimesWhenSendFailed(5);
        producer.start();
        Consumers.print("started", "producer");
        ExecutorService orders = Executors.newCachedThreadPool();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JSONObject order = JSON.parseObject(line);
            orders.submit(() -> answer(producer, order));
        }
        System.exit(0);
    }

    private static void answer(DefaultMQProducer producer, JSONObject order) {
        try {
            Map<String, Long> ends = new TreeMap<>();
            send(producer, order, ends);
            Consumers.print("answer", "producer", "id", order.get("id"), "ends", ends);
        } catch (Exception error) {
            Consumers.print("answer", "producer", "id", order.get("id"), "error", error.toString());
        }
    }

    /** Send `count` messages; `ends` gets the offsets behind them, by `broker_name/queue_id`. */
    private static void send(DefaultMQProducer producer, JSONObject order, Map<String, Long> ends)
        throws Exception {
        int count = order.getIntValue("count");
        double ratePerS = order.getDoubleValue("rate_per_s");
        byte[] body = new byte[order.getIntValue("body_bytes")];
        java.util.Arrays.fill(body, (byte) 'x');
        long started = System.nanoTime();
        for (int index = 0; index < count; index++) {
            if (ratePerS > 0) {
                long dueMs = (long) (index * 1000 / ratePerS) - (System.nanoTime() - started) / 1_000_000;
                Thread.sleep(Math.max(0, dueMs));
            }
            String key = order.getString("key") != null ? order.getString("key") : "key-" + index;
            Object tags = order.get("tags");
            String tag = tags instanceof JSONArray all ? all.getString(index % all.size()) : (String) tags;
            Message message = new Message(order.getString("topic"), tag, key, body);
            if (order.getIntValue("delay_level") > 0) {
                message.setDelayTimeLevel(order.getIntValue("delay_level"));
            }
            if (order.getIntValue("timer_s") > 0) {
                MessageAccessor.putProperty(message, "TIMER_DELAY_SEC", order.getString("timer_s"));
            }
            SendResult result = sendForSure(producer, order, message);
            MessageQueue queue = result.getMessageQueue();
            String name = queue.getBrokerName() + "/" + queue.getQueueId();
            ends.merge(name, result.getQueueOffset() + 1, Math::max);
        }
    }

    /**
     * Send again what has certainly not been sent: on a busy machine a connection may be closed before it is used.
     * With `never_give_up` whatever failed, so that some messages may come twice.
     */
    private static SendResult sendForSure(DefaultMQProducer producer, JSONObject order, Message message)
        throws Exception {
        for (int attempt = 1; ; attempt++) {
            try {
                return sendOne(producer, order, message);
            } catch (Exception error) {
                boolean givesUp = !order.getBooleanValue("never_give_up");
                if (givesUp && (attempt == ATTEMPTS || !isBeforeSending(error))) {
                    throw error;
                }
                Thread.sleep(1000);
            }
        }
    }

    private static boolean isBeforeSending(Throwable error) {
        return error instanceof RemotingSendRequestException
            || error instanceof RemotingConnectException
            || isUnansweredRoute(error)
            || (error != null && isBeforeSending(error.getCause()));
    }

    /** Whether the name server gave no route in time: so only MQClientInstance wraps what remoting throws. */
    private static boolean isUnansweredRoute(Throwable error) {
        return error instanceof IllegalStateException && error.getCause() instanceof RemotingException;
    }

    private static SendResult sendOne(DefaultMQProducer producer, JSONObject order, Message message)
        throws Exception {
        if (order.getBooleanValue("never_ended")) {
            return neverEnding().sendMessageInTransaction(message, null);
        }
        if (order.getInteger("queue_id") != null) {
            return producer.send(message, (queues, ignored, argument) -> pick(queues, order), null);
        }
        return producer.send(message);
    }

    /** A producer that begins transactions and does not know how they end, however often the broker asks. */
    private static synchronized TransactionMQProducer neverEnding() throws Exception {
        if (neverEnding == null) {
            RPCHook signing = Consumers.signing(options);
            neverEnding = signing == null
                ? new TransactionMQProducer("offsetguard-test-transactions")
                : new TransactionMQProducer("offsetguard-test-transactions", signing);
            neverEnding.setNamesrvAddr(options.getString("namesrv"));
            neverEnding.setTransactionListener(new TransactionListener() {
                @Override
                public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                    return LocalTransactionState.UNKNOW;
                }

                @Override
                public LocalTransactionState checkLocalTransaction(MessageExt message) {
                    return LocalTransactionState.UNKNOW;
                }
            });
            neverEnding.start();
        }
        return neverEnding;
    }

    private static MessageQueue pick(List<MessageQueue> queues, JSONObject order) {
        for (MessageQueue queue : queues) {
            if (queue.getQueueId() == order.getIntValue("queue_id")) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no queue " + order.getIntValue("queue_id") + " in " + queues);
    }
}
