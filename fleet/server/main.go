// SPDX-License-Identifier: Apache-2.0

// Command server is a Go HTTP server with the stock OpenTelemetry SDK, and its client: what the test of --parent traces. It knows nothing of ksnoop.
//
//	server -requests N -connections N -out FILE
//
// Each request has its number as its path, and its handler opens the file /absent/NUMBER, which is not there: of even
// numbers in the request's own span, of odd ones in a span below. Of each third one a span that has ended lies on the
// stack, too. At the end FILE has a line for each span: its trace, its number, its name and that of the request.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	requests := flag.Int("requests", 10_000, "how many requests")
	connections := flag.Int("connections", 64, "how many at once")
	wait := flag.Duration("wait", 0, "wait so long before the first one")
	out := flag.String("out", "", "where spans are written to")
	flag.Parse()
	if err := run(*requests, *connections, *wait, *out); err != nil {
		log.Fatal(err)
	}
}

func run(requests, connections int, wait time.Duration, out string) error {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	written := &writer{to: bufio.NewWriter(file)}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(written, sdk.WithMaxQueueSize(1<<16), sdk.WithBlocking()))
	otel.SetTracerProvider(provider)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: otelhttp.NewHandler(http.HandlerFunc(handle), "request")}
	go server.Serve(l)
	time.Sleep(wait)
	if err := ask("http://"+l.Addr().String(), requests, connections); err != nil {
		return err
	}
	if err := server.Shutdown(context.Background()); err != nil {
		return err
	}
	if err := provider.Shutdown(context.Background()); err != nil {
		return err
	}
	return written.to.Flush()
}

// handle serves a request.
func handle(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx := r.Context()
	if n%3 == 0 {
		prepare(ctx)
	}
	if n%2 == 1 {
		err = look(ctx, n)
	} else {
		_, err = os.Open(fmt.Sprintf("/absent/%d", n))
	}
	if err == nil {
		err = fmt.Errorf("/absent/%d is there", n)
	}
	http.Error(w, err.Error(), http.StatusNotFound)
}

// prepare does something in a span that has ended when the file is opened.
func prepare(ctx context.Context) {
	_, span := otel.Tracer("server").Start(ctx, "prepare")
	defer span.End()
}

// look opens the file in a span of its own.
func look(ctx context.Context, n int) error {
	_, span := otel.Tracer("server").Start(ctx, "look")
	defer span.End()
	span.SetAttributes(attribute.Int("n", n))
	_, err := os.Open(fmt.Sprintf("/absent/%d", n))
	span.RecordError(err)
	return err
}

// ask makes the requests.
func ask(url string, requests, connections int) error {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, connections)
	for range connections {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(requests); n = next.Add(1) {
				resp, err := client.Get(fmt.Sprintf("%s/%d", url, n))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err == nil && resp.StatusCode != http.StatusNotFound {
					err = fmt.Errorf("request %d: %s", n, resp.Status)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// A writer writes spans.
type writer struct{ to *bufio.Writer }

// ExportSpans implements trace.SpanExporter.
func (w *writer) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	for _, s := range spans {
		n := ""
		for _, a := range s.Attributes() {
			switch a.Key {
			case "url.path":
				n = a.Value.AsString()[1:]
			case "n":
				n = strconv.FormatInt(a.Value.AsInt64(), 10)
			}
		}
		if _, err := fmt.Fprintf(w.to, "%s %s %s %s\n", s.SpanContext().TraceID(), s.SpanContext().SpanID(), s.Name(), n); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown implements trace.SpanExporter.
func (w *writer) Shutdown(context.Context) error { return nil }
