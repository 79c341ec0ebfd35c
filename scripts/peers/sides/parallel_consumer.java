/*
 * confluentinc/parallel-consumer 0.5.3.3 (its core module, no vert.x, no reactor) in the order of keys.
 *
 * A thread for each worker. At least once: it commits what is finished, with the offsets behind it as
 * metadata. An output counts in the callback after it was published, with exactly once at most 100 ms before
 * its commit. It speaks the protocol of protocol.py and tries the order as order_check.py does.
 *
 * Settings, from https://github.com/confluentinc/parallel-consumer/blob/master/README.adoc and
 * https://github.com/confluentinc/parallel-consumer/blob/0.5.3.3/parallel-consumer-core/src/main/java/io/confluent/parallelconsumer/ParallelConsumerOptions.java:
 *
 * - ordering KEY, its default: README.adoc#ordering-guarantees.
 * - maxConcurrency: the workers; 100 where the handler waits for nothing ("set this quite high, much higher
 *   than core count"); 16, its default, with batches.
 * - commitMode PERIODIC_CONSUMER_ASYNCHRONOUS, its default and "the fastest option", each 5 s:
 *   README.adoc#commit-mode.
 * - the dynamic load factor, its default.
 * - retryDelayProvider, and a PCRetriableException, which is not logged: README.adoc, "Retries".
 * - batchSize: README.adoc#batching.
 * - outputs: pollAndProduce, with the producer properties that every side has: README.adoc.
 * - exactly once: PERIODIC_TRANSACTIONAL_PRODUCER, a transaction each 100 ms, its default:
 *   README.adoc#transaction-system.
 * - bytes as they came: ByteArrayDeserializer; JSON by Jackson. No metrics registry, no log (slf4j-nop).
 */

import static io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import static io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder.KEY;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import io.confluent.parallelconsumer.PCRetriableException;
import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import io.confluent.parallelconsumer.PollContext;
import io.confluent.parallelconsumer.internal.AbstractParallelEoSStreamProcessor;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class ParallelConsumerSide {
    static final int QUICK_CONCURRENCY = 100;
    static final int BATCH_CONCURRENCY = 16;
    static final long REPORT_MS = 250;
    static final ObjectMapper JSON = new ObjectMapper();
    static final ObjectReader READING = JSON.readerFor(Reading.class);
    static final byte[] POISON = "poison".getBytes();
    static final byte[] HOT = "hot".getBytes();

    final JsonNode options;
    final String work;
    final LongAdder handled = new LongAdder();
    final LongAdder failed = new LongAdder();
    final Latencies latencies = new Latencies();
    final OrderCheck order;
    final double[] sleepMs;

    /** What the values of the typed work hold. */
    record Reading(String home, long n, String pad) {}

    public static void main(String[] arguments) throws Exception {
        new ParallelConsumerSide(JSON.readTree(arguments[0])).run();
    }

    ParallelConsumerSide(JsonNode options) {
        this.options = options;
        work = options.get("work").asText();
        order = options.path("check_order").asBoolean() ? new OrderCheck() : null;
        JsonNode given = options.path("sleep_ms");
        double low = given.isArray() ? given.get(0).asDouble() : given.asDouble();
        sleepMs = new double[] {low, given.isArray() ? given.get(1).asDouble() : low};
    }

    void run() throws Exception {
        CountDownLatch stopping = new CountDownLatch(1);
        boolean sends = work.equals("output") || work.equals("exactly_once");
        ParallelStreamProcessor<byte[], byte[]> processor =
                ParallelStreamProcessor.createEosStreamProcessor(settings(sends));
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping.countDown();
            try {
                ended.await(30, TimeUnit.SECONDS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        followStandardInput(stopping);
        processor.subscribe(List.of(options.get("topic").asText()));
        if (sends) {
            processor.pollAndProduce(this::output, result -> handled.increment());
        } else {
            processor.poll(this::handle);
        }
        say("{\"ready\": true}");
        while (!stopping.await(REPORT_MS, TimeUnit.MILLISECONDS)) {
            report();
            if (processor.isClosedOrFailed()) {
                throw new IllegalStateException("it ended by itself", causeOf(processor));
            }
        }
        if (order == null) {
            processor.closeDontDrainFirst();
        } else {
            // All that it has taken is handled, so that what was checked is what is committed.
            processor.closeDrainFirst();
            say(order.seen());
        }
        ended.countDown();
    }

    static Exception causeOf(ParallelStreamProcessor<byte[], byte[]> processor) {
        return processor instanceof AbstractParallelEoSStreamProcessor<?, ?> known
                ? known.getFailureCause()
                : null;
    }

    ParallelConsumerOptions<byte[], byte[]> settings(boolean sends) {
        var builder = ParallelConsumerOptions.<byte[], byte[]>builder()
                .ordering(KEY)
                .consumer(new KafkaConsumer<>(consumerProperties()))
                .maxConcurrency(concurrency())
                .commitMode(CommitMode.PERIODIC_CONSUMER_ASYNCHRONOUS);
        if (work.equals("batch")) {
            builder.batchSize(options.path("batch_records").asInt(500));
        }
        if (work.equals("poison")) {
            Duration delay = Duration.ofMillis((long) (options.path("retry_s").asDouble() * 1_000));
            builder.retryDelayProvider(record -> delay);
        }
        if (sends) {
            builder.producer(new KafkaProducer<>(producerProperties()));
        }
        if (work.equals("exactly_once")) {
            builder.commitMode(CommitMode.PERIODIC_TRANSACTIONAL_PRODUCER);
        }
        return builder.build();
    }

    int concurrency() {
        if (work.equals("batch")) {
            return BATCH_CONCURRENCY;
        }
        boolean sleeps = work.equals("sleep") || work.equals("hot") || work.equals("poison");
        return sleeps ? options.get("workers").asInt() : QUICK_CONCURRENCY;
    }

    Properties consumerProperties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap").asText());
        properties.put("group.id", options.get("group").asText());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return properties;
    }

    Properties producerProperties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap").asText());
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("linger.ms", "5");
        properties.put("batch.size", "1000000");
        if (work.equals("exactly_once")) {
            properties.put("transactional.id", "peers-" + options.get("group").asText());
        }
        return properties;
    }

    ProducerRecord<byte[], byte[]> output(PollContext<byte[], byte[]> context) {
        ConsumerRecord<byte[], byte[]> record = context.getSingleConsumerRecord();
        if (order != null) {
            order.begin(record);
            order.end(record);
        }
        return new ProducerRecord<>(options.get("output_topic").asText(), record.key(), record.value());
    }

    void handle(PollContext<byte[], byte[]> context) {
        if (work.equals("batch")) {
            handleBatch(context);
            return;
        }
        ConsumerRecord<byte[], byte[]> record = context.getSingleConsumerRecord();
        if (order != null) {
            order.begin(record);
        }
        try {
            switch (work) {
                case "json" -> parse(record.value(), false);
                case "typed" -> parse(record.value(), true);
                case "sleep" -> sleep(sleepMs[0], sleepMs[1]);
                case "latency" -> latencies.add(record.value());
                case "hot" -> {
                    if (Arrays.equals(record.key(), HOT)) {
                        double hotMs = options.get("hot_ms").asDouble();
                        sleep(hotMs, hotMs);
                        return;
                    }
                    latencies.add(record.value());
                    sleep(sleepMs[0], sleepMs[1]);
                }
                case "poison" -> {
                    sleep(sleepMs[0], sleepMs[1]);
                    if (isPoison(record.value())) {
                        failOnce(context);
                        return;
                    }
                }
                default -> { }
            }
            handled.increment();
        } finally {
            if (order != null) {
                order.end(record);
            }
        }
    }

    void handleBatch(PollContext<byte[], byte[]> context) {
        int count = 0;
        boolean decodes = options.path("decode").asText().equals("json");
        for (ConsumerRecord<byte[], byte[]> record : context.getConsumerRecordsFlattened()) {
            if (decodes) {
                parse(record.value(), false);
            }
            count++;
        }
        handled.add(count);
    }

    void failOnce(PollContext<byte[], byte[]> context) {
        if (context.getSingleRecord().getNumberOfFailedAttempts() == 0) {
            failed.increment();
            // Any other exception is logged with its stack.
            throw new PCRetriableException("poison");
        }
    }

    static boolean isPoison(byte[] value) {
        return value.length >= POISON.length
                && Arrays.equals(value, 0, POISON.length, POISON, 0, POISON.length);
    }

    static void parse(byte[] value, boolean typed) {
        try {
            if (typed) {
                READING.readValue(value);
            } else {
                JSON.readTree(value);
            }
        } catch (java.io.IOException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    static void sleep(double lowMs, double highMs) {
        double ms = highMs > lowMs ? ThreadLocalRandom.current().nextDouble(lowMs, highMs) : lowMs;
        try {
            TimeUnit.NANOSECONDS.sleep((long) (ms * 1e6));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    void report() {
        StringBuilder line = new StringBuilder();
        line.append("{\"handled\": ").append(handled.sum());
        line.append(", \"at_s\": ").append(System.nanoTime() / 1e9);
        if (work.equals("poison")) {
            line.append(", \"failed\": ").append(failed.sum());
        }
        line.append(latencies.take()).append("}");
        say(line.toString());
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void followStandardInput(CountDownLatch stopping) {
        Thread thread = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (java.io.IOException closed) {
                // As good as its end.
            }
            stopping.countDown();
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** Latencies since the last line; System.nanoTime is Python's time.monotonic on Linux. */
    static final class Latencies {
        private long[] taken = new long[1 << 16];
        private int count;

        void add(byte[] value) {
            long sent = 0;
            for (int at = 0; value[at] != ' '; at++) {
                sent = sent * 10 + (value[at] - '0');
            }
            long latency = System.nanoTime() - sent;
            synchronized (this) {
                if (count == taken.length) {
                    taken = Arrays.copyOf(taken, 2 * count);
                }
                taken[count++] = latency;
            }
        }

        String take() {
            long[] sorted;
            synchronized (this) {
                if (count == 0) {
                    return "";
                }
                sorted = Arrays.copyOf(taken, count);
                count = 0;
            }
            Arrays.sort(sorted);
            StringBuilder text = new StringBuilder(", \"latency_ms\": [");
            double[] places = {0.5, 0.99, 0.999, 1.0};
            for (int place = 0; place < places.length; place++) {
                int at = Math.min((int) (sorted.length * places[place]), sorted.length - 1);
                text.append(place == 0 ? "" : ", ").append(sorted[at] / 1e6);
            }
            return text.append("], \"latencies\": ").append(sorted.length).toString();
        }
    }

    /** The same as order_check.py. */
    static final class OrderCheck {
        private final Map<String, Long> latest = new ConcurrentHashMap<>();
        private final Map<String, Integer> running = new ConcurrentHashMap<>();
        private long checked;
        private long swapped;
        private long overlapping;

        private static String lane(ConsumerRecord<byte[], byte[]> record) {
            return record.partition() + " " + new String(record.key());
        }

        synchronized void begin(ConsumerRecord<byte[], byte[]> record) {
            String lane = lane(record);
            checked++;
            if (record.offset() <= latest.getOrDefault(lane, -1L)) {
                swapped++;
            }
            latest.merge(lane, record.offset(), Math::max);
            if (running.merge(lane, 1, Integer::sum) > 1) {
                overlapping++;
            }
        }

        synchronized void end(ConsumerRecord<byte[], byte[]> record) {
            running.merge(lane(record), -1, Integer::sum);
        }

        synchronized String seen() {
            return String.format(
                    "{\"checked\": %d, \"swapped\": %d, \"overlapping\": %d}", checked, swapped, overlapping);
        }
    }
}
