// Keeps so many megabytes as its switch says, and makes short-lived objects beside them; a few of those that are kept are replaced
// each time. Without the switch it keeps one.
//
// Garbage.java SWITCH
import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

class Garbage {
    static final int PIECE = 4096;
    static final List<byte[]> kept = new ArrayList<>();

    static int pieces(Path at) {
        try {
            return Integer.parseInt(Files.readString(at).trim()) * ((1 << 20) / PIECE);
        } catch (Exception none) {
            return (1 << 20) / PIECE;
        }
    }

    static long serve(int round) {
        long sum = 0;
        for (int request = 0; request < 300; request++) {
            byte[] page = new byte[PIECE];
            for (int at = 0; at < page.length; at++) {
                page[at] = (byte) (at * 31 + round);
                sum += page[at];
            }
            if (request % 10 == 0) {
                kept.set((round * 31 + request) % kept.size(), page);
            }
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        String figure = System.getenv("FIGURE");
        FileOutputStream done = new FileOutputStream(figure == null ? "/dev/null" : figure, true);
        Path at = Path.of(arguments[0]);
        long sum = 0;
        for (int round = 0; ; round++) {
            if (round % 64 == 0) {
                int wanted = pieces(at);
                while (kept.size() < wanted) {
                    kept.add(new byte[PIECE]);
                }
                while (kept.size() > wanted) {
                    kept.remove(kept.size() - 1);
                }
            }
            sum += serve(round);
            done.write('.');
        }
    }
}
