import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Real push and pull consumers, several to a JVM. The only argument is one JSON object (see clients.py); events are printed as
 * one JSON object per line: started, consumed (running totals), deadlock, stopped, error.
 * SIGTERM shuts the consumers down as a good application does (offsets are committed, locks given back).
 */
public final class Consumers {
    public static void main(String[] arguments) throws Exception {
        JSONObject options = JSON.parseObject(arguments[0]);
        List<Consumer> consumers = new ArrayList<>();
        JSONArray specs = options.getJSONArray("consumers");
        for (int index = 0; index < specs.size(); index++) {
            consumers.add(Consumer.started(options, specs.getJSONObject(index)));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> consumers.forEach(Consumer::shutdown)));
        int deadlocked = 0;
        while (true) {
            Thread.sleep(200);
            consumers.forEach(Consumer::printTotals);
            if (deadlockedThreads() > deadlocked) {
                deadlocked = deadlockedThreads();
                print("deadlock", null, "threads", deadlocked);
            }
        }
    }

    static synchronized void print(String event, String group, Object... pairs) {
        JSONObject line = new JSONObject(true);
        line.put("event", event);
        line.put("group", group);
        line.put("at_ms", System.currentTimeMillis());
        for (int index = 0; index < pairs.length; index += 2) {
            line.put((String) pairs[index], pairs[index + 1]);
        }
        System.out.println(line.toJSONString());
        System.out.flush();
    }

    private abstract static class Consumer {
        private static final int START_ATTEMPTS = 5;

        final String group;
        final JSONObject spec;
        private final ClientConfig client;
        private final AtomicLong consumed = new AtomicLong();
        private final AtomicLong failed = new AtomicLong();
        private long printed = 0;

        Consumer(JSONObject options, JSONObject spec, ClientConfig client) throws Exception {
            this.spec = spec;
            this.group = spec.getString("group");
            this.client = client;
            client.setNamesrvAddr(options.getString("namesrv"));
            if (spec.getString("instance_name") != null) {
                client.setInstanceName(spec.getString("instance_name"));
            }
            if (spec.getString("client_ip") != null) {
                client.setClientIP(spec.getString("client_ip"));
            }
            setEnum("setMessageModel", spec.getBooleanValue("broadcasting") ? "BROADCASTING" : "CLUSTERING");
            setEnum("setConsumeFromWhere", "CONSUME_FROM_FIRST_OFFSET");
        }

        abstract void start() throws Exception;

        abstract void end();

        /**
         * A consumer that runs. A start fails when its first request does (on a busy machine 5.x's connection may be
         * closed before the request is written); an application would be started again, and so is this one.
         */
        static Consumer started(JSONObject options, JSONObject spec) throws Exception {
            for (int attempt = 1; ; attempt++) {
                Consumer one = spec.getBooleanValue("pulls") ? new Puller(options, spec) : new Pushed(options, spec);
                try {
                    one.start();
                    print("started", one.group, "client_id", one.client.buildMQClientId());
                    return one;
                } catch (Exception error) {
                    if (attempt == START_ATTEMPTS || !isOfTheConnection(error)) {
                        throw error;
                    }
                    print("error", one.group, "attempt", attempt, "error", error.toString());
                    one.end();
                    sleep(1000);
                }
            }
        }

        private static boolean isOfTheConnection(Throwable error) {
            return error != null && (error instanceof RemotingException || isOfTheConnection(error.getCause()));
        }

        void shutdown() {
            end();
            printTotals();
            print("stopped", group);
        }

        void printTotals() {
            long done = consumed.get();
            long refused = failed.get();
            if (done + refused != printed) {
                printed = done + refused;
                print("consumed", group, "consumed", done, "failed", refused);
            }
        }

        final boolean handle(List<MessageExt> messages) {
            boolean success = true;
            long handlingMs = spec.getLongValue("handling_ms");
            for (MessageExt message : messages) {
                if (spec.getJSONArray("error_keys").contains(message.getKeys())) {
                    endByError("PullMessageService");
                    endByError("RebalanceService");
                }
                if (spec.getJSONArray("hang_keys").contains(message.getKeys())) {
                    Hang.in(spec.getString("hang_in"));
                }
                sleep(handlingMs);
                success &= !shallFail(message);
            }
            (success ? consumed : failed).addAndGet(messages.size());
            return success;
        }

        private boolean shallFail(MessageExt message) {
            return spec.getBooleanValue("fail_always") || spec.getJSONArray("fail_keys").contains(message.getKeys());
        }

        /** MessageModel and ConsumeFromWhere live in different packages in 4.x and 5.x. */
        @SuppressWarnings({"unchecked", "rawtypes"})
        private void setEnum(String setter, String value) throws Exception {
            for (Method method : client.getClass().getMethods()) {
                if (method.getName().equals(setter)) {
                    method.invoke(client, Enum.valueOf((Class<Enum>) method.getParameterTypes()[0], value));
                }
            }
        }

        static void sleep(long milliseconds) {
            try {
                Thread.sleep(milliseconds);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static final class Pushed extends Consumer {
        private final DefaultMQPushConsumer consumer;

        Pushed(JSONObject options, JSONObject spec) throws Exception {
            this(options, spec, new DefaultMQPushConsumer(null, spec.getString("group"), signing(options)));
        }

        private Pushed(JSONObject options, JSONObject spec, DefaultMQPushConsumer consumer) throws Exception {
            super(options, spec, consumer);
            this.consumer = consumer;
            consumer.setConsumeThreadMin(spec.getIntValue("threads"));
            consumer.setConsumeThreadMax(spec.getIntValue("threads"));
            consumer.setMaxReconsumeTimes(spec.getIntValue("max_reconsume_times"));
            consumer.setPersistConsumerOffsetInterval(spec.getIntValue("commit_every_ms"));
            consumer.setPullThresholdForQueue(spec.getIntValue("pull_threshold_for_queue"));
            if (!spec.getBooleanValue("client_rebalance")) {
                DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
            }
            for (Map.Entry<String, Object> topic : spec.getJSONObject("topics").entrySet()) {
                consumer.subscribe(topic.getKey(), (String) topic.getValue());
            }
            if (spec.getBooleanValue("orderly")) {
                consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                    handle(messages)
                        ? ConsumeOrderlyStatus.SUCCESS
                        : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
            } else {
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                    handle(messages)
                        ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                        : ConsumeConcurrentlyStatus.RECONSUME_LATER);
            }
        }

        @Override
        void start() throws Exception {
            consumer.start();
        }

        @Override
        void end() {
            consumer.shutdown();
        }
    }

    /** A pull consumer that polls, and for good pauses each queue of which a message says so. */
    private static final class Puller extends Consumer {
        private final DefaultLitePullConsumer consumer;
        private final Thread polling = new Thread(this::poll, "polling");
        private volatile boolean running = true;

        Puller(JSONObject options, JSONObject spec) throws Exception {
            this(options, spec, new DefaultLitePullConsumer(null, spec.getString("group"), signing(options)));
        }

        private Puller(JSONObject options, JSONObject spec, DefaultLitePullConsumer consumer) throws Exception {
            super(options, spec, consumer);
            this.consumer = consumer;
            for (Map.Entry<String, Object> topic : spec.getJSONObject("topics").entrySet()) {
                consumer.subscribe(topic.getKey(), (String) topic.getValue());
            }
        }

        private void poll() {
            while (running) {
                List<MessageExt> messages = consumer.poll(1000);
                handle(messages);
                Set<MessageQueue> paused = new HashSet<>();
                for (MessageExt message : messages) {
                    if (spec.getJSONArray("pause_keys").contains(message.getKeys())) {
                        paused.add(new MessageQueue(
                            message.getTopic(), message.getBrokerName(), message.getQueueId()));
                    }
                }
                consumer.pause(paused);
            }
        }

        @Override
        void start() throws Exception {
            consumer.start();
            polling.start();
        }

        @Override
        void end() {
            running = false;
            consumer.shutdown();
        }
    }

    /** Ways in which a listener never comes back, each in a method of its own name. */
    private static final class Hang {
        private static final long FOR_EVER = 24 * 3600 * 1000L;
        private static final Lock NEVER_UNLOCKED = new ReentrantLock();
        private static final Object FIRST = new Object();
        private static final Object SECOND = new Object();
        private static final AtomicInteger TURNS = new AtomicInteger();
        private static final CountDownLatch BOTH = new CountDownLatch(2);

        static void in(String what) {
            try {
                switch (what) {
                    case "sleep":
                        sleep();
                        break;
                    case "lock":
                        lock();
                        break;
                    case "socket":
                        read();
                        break;
                    case "deadlock":
                        transfer(TURNS.getAndIncrement() % 2 == 0);
                        break;
                    default:
                        throw new IllegalArgumentException("hang_in: " + what);
                }
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        private static void sleep() throws InterruptedException {
            Thread.sleep(FOR_EVER);
        }

        /** The first one holds it for ever, asleep; all others wait for it. */
        private static void lock() throws InterruptedException {
            NEVER_UNLOCKED.lock();
            sleep();
        }

        private static void read() throws IOException {
            try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                Socket socket = new Socket(silent.getInetAddress(), silent.getLocalPort())) {
                socket.getInputStream().read();
            }
        }

        private static void transfer(boolean forth) throws InterruptedException {
            synchronized (forth ? FIRST : SECOND) {
                BOTH.countDown();
                BOTH.await();
                finish(forth ? SECOND : FIRST);
            }
        }

        private static void finish(Object other) {
            synchronized (other) {
                throw new IllegalStateException("no deadlock");
            }
        }
    }

    /** Throws an Error in a thread of this JVM, as memory that has run out does: RocketMQ catches exceptions only. */
    @SuppressWarnings({"deprecation", "removal"})
    private static void endByError(String name) {
        Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().startsWith(name))
            .forEach(Thread::stop);
    }

    /** How many threads of this JVM Java itself says are deadlocked. */
    private static int deadlockedThreads() {
        long[] found = ManagementFactory.getThreadMXBean().findDeadlockedThreads();
        return found == null ? 0 : found.length;
    }

    /** The signing hook of 4.x, or null without an access key. */
    static RPCHook signing(JSONObject options) throws Exception {
        if (options.getString("access_key") == null) {
            return null;
        }
        Class<?> credentials = Class.forName("org.apache.rocketmq.acl.common.SessionCredentials");
        return (RPCHook) Class.forName("org.apache.rocketmq.acl.common.AclClientRPCHook")
            .getConstructor(credentials)
            .newInstance(credentials.getConstructor(String.class, String.class)
                .newInstance(options.getString("access_key"), options.getString("secret_key")));
    }
}
