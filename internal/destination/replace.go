// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"errors"
	"os"
	"path/filepath"
)

// Made reports whether Create made the file, so that it can be replaced.
func (f *File) Made() bool { return f.remove != nil }

// empty reports whether Create made the file and nothing is in it.
func (f *File) empty() bool {
	info, err := f.Stat()
	return err == nil && f.Made() && info.Size() == 0
}

// Replace puts text in place of all that a file has that Create made. Who opens it by its name finds either
// all of the old text or all of the new one. The new file has the mode that the old one has by then.
func (f *File) Replace(text []byte) error {
	err := f.replace(text)
	f.failed = f.failed || err != nil
	return err
}

func (f *File) replace(text []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(f.name), "."+filepath.Base(f.name)+".*")
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err == nil {
		err = next.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(next.Name(), f.name)
	}
	if err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	old := f.File
	f.File = next
	f.watched.Writer = next
	return old.Close()
}
