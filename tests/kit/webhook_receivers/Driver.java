// Answers lines of cases with the Java code of docs/how-to/verify-signatures.md.

import com.standardwebhooks.Webhook;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

public final class Driver {
    private static final String[] NAMES = {
        "webhook-id", "webhook-timestamp", "webhook-signature"
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.append(answer(line.split("\t", -1))).append('\n');
        }
        System.out.print(answers);
    }

    private static String answer(String[] asked) throws Exception {
        String key = asked[1];
        byte[] body = Base64.getDecoder().decode(asked[5]);
        if (asked[0].equals("sign")) {
            String text = new String(body, StandardCharsets.UTF_8);
            return new Webhook(key).sign(asked[2], Long.parseLong(asked[3]), text);
        }
        Map<String, String> headers = new HashMap<>();
        Map<String, List<String>> lists = new HashMap<>();
        for (int at = 0; at < NAMES.length; at++) {
            if (!asked[at + 2].isEmpty()) {
                headers.put(NAMES[at], asked[at + 2]);
                lists.put(NAMES[at], List.of(asked[at + 2]));
            }
        }
        boolean ours =
                asked[0].equals("v1")
                        ? VerifyV1.isOurs(lists, body, key)
                        : VerifyV1a.isOurs(headers, body, key);
        return ours ? "yes" : "no";
    }
}
