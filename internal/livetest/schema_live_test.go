// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// What live tests record is replayed as JSON, and held to the schema: in every run the
// recordings that tests make anyway, with livetest.SchemaEnv also a recording of every other
// trace, which then takes about half as long again.

// A schemaCount says what of the runs of ksnoop was held to the schema.
type schemaCount struct {
	mu                        sync.Mutex
	recordings, empty         int // that were replayed; of which nothing could be
	lines, notLooked, invalid int
	took                      time.Duration
}

// checkedLines returns how many lines of a recording are held to the schema, which takes a
// guest long. What a flood has recorded is the same over and over.
func checkedLines() int {
	if os.Getenv(livetest.SchemaEnv) != "" {
		return 5000
	}
	return 300
}

var schemaCounts schemaCount

// compiledSchema is what ksnoop schema prints.
var compiledSchema = sync.OnceValues(func() (*formattest.Schema, error) {
	text, err := exec.Command("ksnoop", "schema").Output()
	if err != nil {
		return nil, err
	}
	return formattest.CompileSchema(string(text))
})

// schemaOfLines is compiledSchema where there must be one.
func schemaOfLines(t testing.TB) *formattest.Schema {
	t.Helper()
	s, err := compiledSchema()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// holdRecordings holds the recordings in a directory to the schema, and returns what is wrong.
func holdRecordings(dir string) error {
	s, err := compiledSchema()
	if err != nil {
		return err
	}
	var errs []error
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			errs = append(errs, holdRecording(s, name))
		}
		return err
	})
	return errors.Join(append(errs, err)...)
}

// holdRecording replays a file as JSON, if it is a recording, as far as it is whole.
func holdRecording(s *formattest.Schema, name string) error {
	const magic = "ksnoop-recording"
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(file, head); err != nil || string(head) != magic {
		return nil
	}
	cmd := exec.Command(realProgram(), "replay", "--format", "json", name)
	var said strings.Builder
	cmd.Stderr = &said
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	schemaCounts.mu.Lock()
	defer schemaCounts.mu.Unlock()
	schemaCounts.recordings++
	start := time.Now()
	defer func() { schemaCounts.took += time.Since(start) }()
	var errs []error
	n, most := 0, checkedLines()
	lines := bufio.NewReaderSize(pipe, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		if n++; n > most {
			schemaCounts.notLooked++
			continue
		}
		schemaCounts.lines++
		if err := s.Check(line); err != nil {
			schemaCounts.invalid++
			errs = append(errs, fmt.Errorf("%s: %w:\n%.2000s", name, err, line))
		}
	}
	if err := cmd.Wait(); err != nil && !strings.Contains(said.String(), "the recording was cut off") {
		errs = append(errs, fmt.Errorf("replay %s: %w:\n%s", name, err, said.String()))
	} else if n == 0 && err == nil {
		errs = append(errs, fmt.Errorf("replay %s: no line, and no error:\n%s", name, said.String()))
	}
	if n == 0 {
		schemaCounts.empty++
	}
	return errors.Join(errs...)
}

// realProgram is ksnoop itself where something else has its name.
func realProgram() string {
	if path := os.Getenv(realEnv); path != "" {
		return path
	}
	return "ksnoop"
}

// realEnv is the variable with the path of ksnoop, for what has its name instead.
const realEnv = "KSNOOP_REAL"

// recorder stands in for ksnoop and has every trace recorded that can be. It notes what it
// did: recorded, as JSON or recorded anyway (own), without events (none).
const recorder = `#!/bin/sh
note() { echo "$*" >>DIR/runs; }
[ "$1" = trace ] || exec REAL "$@"
for arg in "$@"; do
	case $arg in
	--) break ;;
	--record | --record=* | --format | --format=* | --rotate*) note own "$@"; exec REAL "$@" ;;
	*'count()'* | *'sum('* | *'min('* | *'max('* | *'avg('* | *'stats('* | *'hist('* | *'quantiles('* | *'top('*) note none "$@"; exec REAL "$@" ;; # sends no calls
	--dry-run* | --explain | --help | -h | --print | -o | --output*) note none "$@"; exec REAL "$@" ;;
	esac
done
shift
note recorded "$@"
exec REAL trace --record DIR/recordings/$$-$RANDOM.ks --force --print "$@"
`

// recordAll puts the recorder in the place of ksnoop. It returns a function that holds what
// was recorded to the schema.
func recordAll() (check func() error, err error) {
	dir, err := os.MkdirTemp("/tmp", "ksnoop-schema-")
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath("ksnoop")
	if err != nil {
		return nil, err
	}
	script := strings.NewReplacer("DIR", dir, "REAL", path).Replace(recorder)
	recordings := filepath.Join(dir, "recordings")
	err = errors.Join(os.Mkdir(recordings, 0o700), os.Chmod(recordings, 0o777), os.Chmod(dir, 0o777),
		os.WriteFile(filepath.Join(dir, "ksnoop"), []byte(script), 0o600), os.Chmod(filepath.Join(dir, "ksnoop"), 0o755),
		os.WriteFile(filepath.Join(dir, "runs"), nil, 0o600), os.Chmod(filepath.Join(dir, "runs"), 0o666),
		os.Setenv(realEnv, path), os.Setenv("PATH", dir+":"+os.Getenv("PATH")))
	return func() error {
		runs, err := os.ReadFile(filepath.Join(dir, "runs"))
		counts := map[string]int{}
		for line := range strings.Lines(string(runs)) {
			how, _, _ := strings.Cut(line, " ")
			counts[how]++
		}
		summary, jsonErr := json.Marshal(counts)
		fmt.Printf("soak: traces by what became of them: %s\n", summary)
		return errors.Join(err, jsonErr, holdRecordings(recordings), os.RemoveAll(dir))
	}, err
}

func TestMain(m *testing.M) {
	check := func() error { return nil }
	if guest.In() && os.Getenv(livetest.SchemaEnv) != "" {
		var err error
		if check, err = recordAll(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, os.Interrupt)
		go func() { // all tests take long: who has seen enough still gets the sums
			<-interrupts
			os.Exit(max(summed(check), 1))
		}()
	}
	status := m.Run()
	os.Exit(max(status, summed(check)))
}

// summed prints what was held to the schema, after a last check; testrun shows lines that begin as
// these do. It returns the exit status.
func summed(check func() error) (status int) {
	if err := check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	if c := &schemaCounts; c.recordings > 0 {
		fmt.Printf("soak: JSON of %d recordings, %d of which have none: %d lines held to the schema, %d not, %d do not meet it, in %v\n",
			c.recordings, c.empty, c.lines, c.notLooked, c.invalid, c.took)
	}
	return status
}
