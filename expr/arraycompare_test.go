// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Comparisons of two arrays are refused; with a pointer on one side, or of parts
// of arrays, C compares what is written. A C compiler says what is an array.
func TestArrayCompare(t *testing.T) {
	c := &strings.Builder{}
	c.WriteString(`struct device { char name[16]; long ids[4]; struct device *next; };
struct sock { struct device *dev; } *sk;
char *buf;
#define IS_ARRAY(x) _Generic(&(typeof(x)){0}, char (*)[16]: 1, long (*)[4]: 1, default: 0)
`)
	for _, tt := range []struct {
		x, op, y string
		refused  bool
	}{
		{"sk->dev->name", "==", "sk->dev->next->name", true},
		{"(sk->dev->name)", "!=", "sk->dev->name", true},
		{"sk->dev->ids", "<", "sk->dev->next->ids", true},
		{"&sk->dev->name", "==", "&sk->dev->next->name", false},
		{"sk->dev->name", "==", "buf", false},
		{"buf", "!=", "sk->dev->name", false},
		{"sk->dev->name", "==", "&sk->dev->name[0]", false},
		{"sk->dev->name + 1", "==", "sk->dev->next->name + 1", false},
		{"sk->dev->name[0]", "==", "sk->dev->next->name[0]", false},
		{"sk->dev->ids[1]", "<=", "sk->dev->next->ids[1]", false},
		{"(long)sk->dev->ids", "==", "(long)sk->dev->next->ids", false},
	} {
		text := tt.x + " " + tt.op + " " + tt.y
		for _, items := range []string{text, "buf && " + text} {
			_, err := check("send("+items+")", nil)
			var list *ErrorList
			if got := errors.As(err, &list) && list.Errors[0].Code == CodeType; got != tt.refused || err != nil && !got {
				t.Errorf("%s: %v, to be refused: %v", items, err, tt.refused)
			}
		}
		both := 0
		if tt.refused {
			both = 1
		}
		fmt.Fprintf(c, "_Static_assert((IS_ARRAY(%s) && IS_ARRAY(%s)) == %d, %q);\n", tt.x, tt.y, both, text)
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Log("no gcc: the table is not compared with what it says")
		return
	}
	cmd := exec.Command(gcc, "-xc", "-fsyntax-only", "-")
	cmd.Stdin = strings.NewReader(c.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("gcc: %v\n%s", err, out)
	}
}
