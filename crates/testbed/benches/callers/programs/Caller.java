import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/** Calls each name ten times a second with HttpClient, whose connections are kept alive. */
public final class Caller {
    public static void main(String[] hosts) {
        for (String host : hosts) {
            new Thread(() -> repeat(host)).start();
        }
    }

    private static void repeat(String host) {
        HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(1)).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + host + "/")).timeout(Duration.ofSeconds(1)).build();
        while (true) {
            long began = System.currentTimeMillis();
            String outcome = call(client, request);
            long ended = System.currentTimeMillis();
            System.out.println(host + "\t" + began + "\t" + ended + "\t" + outcome);
            try {
                Thread.sleep(Math.max(0, 100 - (ended - began)));
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private static String call(HttpClient client, HttpRequest request) {
        try {
            return client.send(request, HttpResponse.BodyHandlers.ofString()).body();
        } catch (IOException error) {
            return (error.getClass().getSimpleName() + ": " + error.getMessage()).replace('\t', ' ');
        } catch (InterruptedException error) {
            return "interrupted";
        }
    }
}
