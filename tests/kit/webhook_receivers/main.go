// Answers lines of cases with the Go code of docs/how-to/verify-signatures.md.
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"receivers/receiver"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		fmt.Println(answer(strings.Split(lines.Text(), "\t")))
	}
}

func answer(asked []string) string {
	what, key, id, stamp, signatures := asked[0], asked[1], asked[2], asked[3], asked[4]
	body, _ := base64.StdEncoding.DecodeString(asked[5])
	if what == "sign" {
		webhook, _ := standardwebhooks.NewWebhook(key)
		seconds, _ := strconv.ParseInt(stamp, 10, 64)
		made, _ := webhook.Sign(id, time.Unix(seconds, 0), body)
		return made
	}
	headers := http.Header{}
	for name, value := range map[string]string{
		"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signatures,
	} {
		if value != "" {
			headers.Set(name, value)
		}
	}
	verify := receiver.IsOurs
	if what == "v1a" {
		verify = receiver.IsOursByPublicKey
	}
	if verify(headers, body, key) {
		return "yes"
	}
	return "no"
}
