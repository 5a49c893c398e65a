// SPDX-License-Identifier: Apache-2.0

package regular

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/internal/timeout"
)

// mostWaiting is how long one file is waited for, in all.
const mostWaiting = 5 * time.Second

// answers are what is asked of file systems.
var answers = &timeout.Calls{
	Most:   8,
	Late:   errors.New("its file system does not answer in time"),
	GoesOn: errors.New("its file system has not answered yet"),
	Many:   errors.New("too many files whose file systems do not answer, or not soon"),

	Patience: 3 * mostWaiting,
	Slow:     200 * time.Millisecond,
}

// Hurry has each call waited for only a moment from now on.
func Hurry() { answers.Hurry() }

// Unanswered reports whether err says that a file system did not answer.
func Unanswered(err error) bool { return answers.GaveUp(err) }

// Refused reports whether err says that a file was not asked for, because of others that do not answer. It may be later.
func Refused(err error) bool { return answers.Refused(err) }

// Within returns what call does, which asks for a file, by its name or else. It gives up if that takes too long: see
// timeout.Do.
func Within[T any](file any, call func() (T, error)) (T, error) {
	return timeout.Do(context.Background(), answers, mostWaiting, file, call)
}

// Stat is fs.Stat of a file that another may have chosen.
func Stat(root fs.FS, name string) (fs.FileInfo, error) {
	return Within(name, func() (fs.FileInfo, error) { return fs.Stat(root, name) })
}

// A File is a regular file that another has chosen. When its file system has kept it waiting for too long, all of its methods
// but Close fail.
type File struct {
	file *os.File

	mu     sync.Mutex    // guards the rest
	waited time.Duration // in all
	late   error         // why it is asked for nothing any more
	at     int64         // where to read on
	buffer []byte        // a read that was given up may still write to it
}

var (
	_ fs.File     = (*File)(nil)
	_ io.ReaderAt = (*File)(nil)
)

// mostBuffer is how much is read at once.
const mostBuffer = 1 << 16

// Unbounded returns the file itself, for calls inside Within. It is closed with f.
func (f *File) Unbounded() *os.File { return f.file }

// Late says that the file system has not answered. Whoever reads the file may have ignored that.
func (f *File) Late() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.late
}

// Stat implements fs.File.
func (f *File) Stat() (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ask(f, f.file.Stat)
}

// Mount returns the number of the mount that the file was opened in, 0 if the kernel does not tell. From Linux 6.8 on no
// other mount ever has it; before, one that is mounted after the end of this one may.
func (f *File) Mount() (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ask(f, func() (uint64, error) { return mountOf(f.file) })
}

// Read implements fs.File.
func (f *File) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.readAt(p, f.at)
	f.at += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readAt(p, off)
}

func (f *File) readAt(p []byte, off int64) (done int, err error) {
	for err == nil && done < len(p) {
		part := p[done:min(done+mostBuffer, len(p))]
		if len(f.buffer) < len(part) {
			f.buffer = make([]byte, len(part))
		}
		buffer := f.buffer[:len(part)]
		var n int
		n, err = ask(f, func() (int, error) { return f.file.ReadAt(buffer, off+int64(done)) })
		if Unanswered(err) {
			f.buffer = nil
			return done, err
		}
		done += copy(part, buffer[:n])
	}
	return done, err
}

// ask asks the file system, unless it has not answered before.
func ask[T any](f *File, call func() (T, error)) (T, error) {
	var none T
	if f.late != nil {
		return none, f.late
	}
	start := time.Now()
	v, err := timeout.Do(context.Background(), answers, mostWaiting-f.waited, f, call)
	if f.waited += time.Since(start); Unanswered(err) {
		f.late = err
		return none, err
	}
	return v, err
}

// Close implements fs.File. It waits for no answer that is late.
func (f *File) Close() error {
	f.mu.Lock()
	late := f.late
	f.late = fs.ErrClosed
	f.mu.Unlock()
	if Unanswered(late) {
		go f.file.Close() // the kernel may ask the file system again
		return late
	}
	_, err := Within(f, func() (struct{}, error) { return struct{}{}, f.file.Close() })
	return err
}
