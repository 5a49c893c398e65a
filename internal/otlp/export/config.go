// SPDX-License-Identifier: Apache-2.0

package export

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/internal/otlp"
)

// A signal is a kind of what is exported, as OpenTelemetry calls it.
type signal int

const (
	traces signal = iota
	logs
	metrics
	signals
)

// names are those of signals in paths and, in capitals, in variables.
var names = [signals]string{"traces", "logs", "metrics"}

// fromEnvironment is what stands for a URL if the environment has it.
const fromEnvironment = "env"

// A Config says where to export to, and how.
type Config struct {
	// Attributes are those that the environment gives every resource.
	Attributes []otlp.Attribute
	// Exponential says that the environment wants exponential histograms.
	Exponential bool

	targets [signals]target
}

// A target is where a signal goes.
type target struct {
	url     *url.URL
	headers http.Header
	gzip    bool
	timeout time.Duration
	tls     *tls.Config
}

// Configure takes the URL of a collector, or "env" if the environment has it, and for all else the variables
// OTEL_EXPORTER_OTLP_*. Its errors name variables, and show no values that may be secret.
func Configure(base string, getenv func(string) string) (*Config, error) {
	c := &Config{}
	env := environment{get: getenv}
	for s := range signals {
		t, err := env.target(s, base)
		if err != nil {
			return nil, err
		}
		c.targets[s] = *t
	}
	var err error
	if c.Exponential, err = env.exponential(); err != nil {
		return nil, err
	}
	c.Attributes, err = env.attributes()
	return c, err
}

// Where says where the exports go, without what may be secret.
func (c *Config) Where() string {
	where := shown(c.targets[traces].url)
	return strings.TrimSuffix(where, "/v1/traces")
}

// Exposed reports whether events would leave the machine unencrypted.
func (c *Config) Exposed() bool {
	for s := range signals {
		u := c.targets[s].url
		if u.Scheme == "https" || u.Hostname() == "localhost" {
			continue
		}
		if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
			return true
		}
	}
	return false
}

// shown writes a URL without user, password and query.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// An environment has the variables of the exporter.
type environment struct{ get func(string) string }

// variable returns the value of a variable, of a signal's own before the common one.
func (e environment) variable(s signal, name string) (variable, value string) {
	variable = "OTEL_EXPORTER_OTLP_" + strings.ToUpper(names[s]) + "_" + name
	if value = e.get(variable); value == "" {
		variable = "OTEL_EXPORTER_OTLP_" + name
		value = e.get(variable)
	}
	return variable, strings.TrimSpace(value)
}

func (e environment) target(s signal, base string) (*target, error) {
	t := &target{gzip: true, timeout: 10 * time.Second}
	var err error
	if t.url, err = e.endpoint(s, base); err != nil {
		return nil, err
	}
	if name, v := e.variable(s, "PROTOCOL"); v != "" && v != "http/protobuf" {
		return nil, fmt.Errorf("%s: ksnoop speaks http/protobuf", name)
	}
	switch name, v := e.variable(s, "COMPRESSION"); v {
	case "", "gzip":
	case "none":
		t.gzip = false
	default:
		return nil, fmt.Errorf("%s: there are gzip and none", name)
	}
	if name, v := e.variable(s, "TIMEOUT"); v != "" {
		ms, err := strconv.ParseUint(v, 10, 31)
		if err != nil || ms == 0 {
			return nil, fmt.Errorf("%s: it takes milliseconds, from 1", name)
		}
		t.timeout = time.Duration(ms) * time.Millisecond
	}
	if t.headers, err = e.headers(s); err != nil {
		return nil, err
	}
	t.tls, err = e.tls(s)
	return t, err
}

// endpoint returns where a signal goes to. A signal's own variable has a whole URL, all else what
// stands before /v1/SIGNAL.
func (e environment) endpoint(s signal, base string) (*url.URL, error) {
	name, whole := "the URL", false
	if base == fromEnvironment {
		name, base = e.variable(s, "ENDPOINT")
		if base == "" {
			return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not set")
		}
		whole = name != "OTEL_EXPORTER_OTLP_ENDPOINT"
	}
	u, err := url.Parse(base)
	switch {
	case err != nil: // which would show it
		return nil, fmt.Errorf("%s cannot be read: it has the form http://HOST:4318", name)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%s needs http:// or https:// and a host, as in http://localhost:4318", name)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("%s: there is no port %s: they are 1 to 65535", name, port)
		}
	}
	for _, signal := range names {
		if path := "/v1/" + signal; !whole && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), path) {
			return nil, fmt.Errorf("%s ends in %s, which ksnoop adds itself: leave it out", name, path)
		}
	}
	u.Fragment = ""
	if !whole {
		u = u.JoinPath("v1", names[s])
	}
	return u, nil
}

// headers returns those of requests.
func (e environment) headers(s signal) (http.Header, error) {
	name, text := e.variable(s, "HEADERS")
	list, err := pairs(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	h := http.Header{}
	for _, p := range list {
		if !token(p.Name) || strings.ContainsFunc(p.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("%s: a header has characters that none can have", name)
		}
		h.Set(p.Name, p.Value)
	}
	return h, nil
}

// exponential reports whether histograms are to be exponential ones, by the variable that OpenTelemetry's specification
// has for that.
func (e environment) exponential() (bool, error) {
	const name = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
	const explicit, exponential = "explicit_bucket_histogram", "base2_exponential_bucket_histogram"
	switch v := strings.ToLower(strings.TrimSpace(e.get(name))); v {
	case "", explicit:
		return false, nil
	case exponential:
		return true, nil
	}
	return false, fmt.Errorf("%s: there are %s and %s", name, explicit, exponential)
}

// attributes returns those of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME.
func (e environment) attributes() ([]otlp.Attribute, error) {
	list, err := pairs(e.get("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	service := e.get("OTEL_SERVICE_NAME")
	var own []otlp.Attribute
	if service != "" {
		own = append(own, otlp.Attribute{Name: "service.name", Value: service})
	}
	for _, a := range list {
		if service == "" || a.Name != "service.name" {
			own = append(own, a)
		}
	}
	return own, nil
}

// pairs reads NAME=VALUE,NAME=VALUE, in which values may have %XX.
func pairs(text string) (list []otlp.Attribute, err error) {
	for i, pair := range strings.Split(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if value, err = url.PathUnescape(strings.TrimSpace(value)); err != nil || !ok || name == "" {
			return nil, fmt.Errorf("entry %d is not NAME=VALUE, with %%XX for special characters", i+1)
		}
		list = append(list, otlp.Attribute{Name: name, Value: value})
	}
	return list, nil
}

// token reports whether a name can be that of a header.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

// largest is the most bytes of a file with certificates.
const largest = 4 << 20

// tls returns how servers are verified; nil: by what the system trusts.
func (e environment) tls(s signal) (*tls.Config, error) {
	caName, ca := e.variable(s, "CERTIFICATE")
	certName, cert := e.variable(s, "CLIENT_CERTIFICATE")
	keyName, key := e.variable(s, "CLIENT_KEY")
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := read(ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", caName, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM form", caName, ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%s and %s go together", certName, keyName)
	}
	if cert == "" {
		return c, nil
	}
	certPEM, err := read(cert)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certName, err)
	}
	keyPEM, err := read(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyName, err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certName, keyName, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, largest))
}
