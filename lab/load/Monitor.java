// A keeper that holds a monitor for long while others want it briefly, over and over.
//
// Monitor.java THREADS GAP_MS KEEPER SWITCH
//
// The switch holds the milliseconds that the keeper holds it each time; without it, a tenth of one.
import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

class Monitor {
    static final Object table = new Object();

    static long holdNs(Path at) {
        try {
            return (long) (Double.parseDouble(Files.readString(at).trim()) * 1e6);
        } catch (Exception none) {
            return 100_000;
        }
    }

    // Thread.sleep takes whole milliseconds: a tenth of one would be one, so that is computed.
    static void pause(long ns) throws InterruptedException {
        long until = System.nanoTime() + ns;
        if (ns >= 1_000_000) {
            Thread.sleep(ns / 1_000_000, (int) (ns % 1_000_000));
        }
        while (System.nanoTime() < until) {
            Thread.onSpinWait();
        }
    }

    static void work(FileOutputStream done) {
        try {
            while (true) {
                synchronized (table) {
                    done.write('.');
                }
                pause(2_000_000);
            }
        } catch (Exception over) {
            System.exit(1);
        }
    }

    static void keep(Path at, long gapNs) {
        try {
            while (true) {
                long holdNs = holdNs(at);
                synchronized (table) {
                    pause(holdNs);
                }
                pause(gapNs);
            }
        } catch (Exception over) {
            System.exit(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String figure = System.getenv("FIGURE");
        FileOutputStream done = new FileOutputStream(figure == null ? "/dev/null" : figure, true);
        long gapNs = (long) (Double.parseDouble(arguments[1]) * 1e6);
        for (int number = 0; number < Integer.parseInt(arguments[0]); number++) {
            new Thread(() -> work(done), "worker-" + number).start();
        }
        Thread keeper = new Thread(() -> keep(Path.of(arguments[3]), gapNs), arguments[2]);
        keeper.start();
        keeper.join();
    }
}
