// SPDX-License-Identifier: Apache-2.0

package bpf

// The functions of sessions; functions.go says what holds for all. In their prototypes
//   - cookie is codegen.Cookie of the function: its id and the bits from CookieEntry on;
//   - sp is the low half of an address in the stack frame that the call itself has, the same at entry
//     and return;
//   - s is a session that the program holds: FuncSession, FuncOpenSession and FuncAround return it with
//     its busy flag set, and FuncDone must follow on every path. While it is held, no other program uses
//     it: those that are hit meanwhile in the same context count LostRecursion.
//
// They need no guard. Nothing is recorded in non-maskable interrupts.
const (
	// FuncAway asks whether a call of an entry function can be left alone: it returns -1 if no
	// session is open and the filters, or the switch, let none be opened. Otherwise it returns
	// bits that the caller adds to the cookie.
	//
	//	__s64 ks_away(void)
	//
	// Callers: entry programs of entry functions without values or predicates, first of all.
	FuncAway = "ks_away"
	// FuncEnter records a call. It returns 1 if its return is of no interest, else 0. It sends.
	//
	//	int ks_enter(void *ctx, __u64 cookie, __u32 sp)
	//
	// Callers: entry programs of functions without values or predicates. It does all that
	// FuncSession, FuncPush, FuncLogArgs and FuncDone do.
	FuncEnter = "ks_enter"
	// FuncLeave records a return. It returns 0. It sends.
	//
	//	int ks_leave(void *ctx, __u64 cookie, __u32 sp, __u64 result, __u64 ticket)
	//
	// result is the whole return register. ticket is that of AppendSnapshot, 0 for none.
	//
	// Callers: return programs of functions without values or predicates. It does all that
	// FuncOpenSession, FuncInnermost, FuncPop and FuncDone do.
	FuncLeave = "ks_leave"
	// FuncEnterUser is FuncEnter for a function of the process. It sends.
	//
	//	int ks_enter_user(void *ctx, __u64 cookie, __u64 user_sp)
	//
	// user_sp is the stack pointer in user space, as it is at entry.
	//
	// Callers: as of FuncEnter.
	FuncEnterUser = "ks_enter_user"
	// FuncLeaveUser is FuncLeave for a function of the process. It sends.
	//
	//	int ks_leave_user(void *ctx, __u64 cookie, __u64 user_sp, __u64 result, __u64 ticket)
	//
	// Callers: as of FuncLeave.
	FuncLeaveUser = "ks_leave_user"
	// FuncSession returns the session that a call belongs to or, for an entry function, a new one
	// if the filters let it be opened; NULL otherwise. No room is counted as LostSession, a
	// session that would open in a non-maskable interrupt as LostNMI.
	//
	//	struct session *ks_session(__u64 cookie)
	//
	// A new session is empty until FuncPush; FuncDone gives it back if it stays so.
	//
	// Callers: entry programs of functions with values or predicates.
	FuncSession = "ks_session"
	// FuncOpenSession returns the open session of the current thread or interrupt, NULL if there is none.
	//
	//	struct session *ks_open_session(void)
	//
	// Callers: return programs of functions with values or predicates.
	FuncOpenSession = "ks_open_session"
	// FuncAround is FuncOpenSession for an injected probe.
	//
	//	struct session *ks_around(__u32 trap)
	//
	// trap is that of FuncFilter.
	//
	// Callers: programs of injected probes.
	FuncAround = "ks_around"
	// FuncDone gives up what FuncSession, FuncOpenSession or FuncAround has returned. The caller
	// must not use it any more. It returns 0. It sends the log if SessionSettings.Live is set.
	//
	//	int ks_done(struct session *s)
	//
	// Callers: as of these.
	FuncDone = "ks_done"
	// FuncPush puts a call on top of a session's stack. It returns 1, or 0 if the call is not
	// recorded: there are MaxDepth calls already (counted as LostDepth), the call is on another
	// stack, or no session is open any more and the function opens none, or the filters let it open none. It sends what it has to make room
	// for.
	//
	//	int ks_push(struct session *s, __u64 cookie, __u32 sp)
	//
	// Callers: entry programs of functions with values or predicates, when the predicates hold.
	FuncPush = "ks_push"
	// FuncPushUser is FuncPush for a function of the process. It sends.
	//
	//	int ks_push_user(struct session *s, __u64 cookie, __u64 user_sp, void *ctx)
	//
	// user_sp is that of FuncEnterUser.
	//
	// Callers: as of FuncPush.
	FuncPushUser = "ks_push_user"
	// FuncRejectUser is for a call of a function of the process that does not meet its predicates: its return, which the
	// return program sees, is not one of the calls at the same place in the stack. It returns 0. It sends.
	//
	//	int ks_reject_user(struct session *s, void *ctx, __u64 user_sp)
	//
	// Callers: as of FuncPushUser, when the predicates do not hold.
	FuncRejectUser = "ks_reject_user"
	// FuncPop takes the innermost call off, which FuncInnermost has found to be that of the
	// caller, and ends the session with the last one. It returns 0. It sends.
	//
	//	int ks_pop(void *ctx, struct session *s, __u64 cookie, __u64 result, __u32 hidden)
	//
	// result is the whole return register. hidden is CallHidden if a predicate does not hold at
	// return, else 0. The ticket of a branch snapshot is to be stored at SessionTicket before.
	//
	// Callers: return programs of functions with values or predicates.
	FuncPop = "ks_pop"
	// FuncInnermost returns when the innermost call began, in ns of CLOCK_MONOTONIC, if it is that of
	// func at sp, after it has taken off calls inside it whose returns were not seen; else 0. It sends:
	// these may have been the last ones.
	//
	//	__u64 ks_innermost(struct session *s, __u32 func, __u32 sp)
	//
	// func is the low half of the cookie.
	//
	// Callers: return programs of functions with values or predicates.
	FuncInnermost = "ks_innermost"
	// FuncInnermostUser is FuncInnermost for a function of the process. It sends.
	//
	//	__u64 ks_innermost_user(struct session *s, __u32 func, __u64 user_sp)
	//
	// Callers: as of FuncInnermost.
	FuncInnermostUser = "ks_innermost_user"
	// FuncItem returns a frame for the values of the innermost call; NULL if there is no room,
	// which is counted as LostValues.
	//
	//	struct frame *ks_item(struct session *s, __u32 probe, __u32 size)
	//
	// size is constant: bytes of values behind the frame. The caller stores them, at once or at return.
	//
	// Callers: entry programs of functions with values or predicates, after FuncPush.
	FuncItem = "ks_item"
	// FuncItemOf returns the frame that FuncItem made for the innermost call, NULL if it made
	// none. size is the same.
	//
	//	struct frame *ks_item_of(struct session *s, __u32 size)
	//
	// Callers: return programs of functions with values or predicates, after FuncInnermost.
	FuncItemOf = "ks_item_of"
	// FuncLogItem puts the values of the innermost call into the log, if the session is traced.
	// It returns 0. It sends a log that is full.
	//
	//	int ks_log_item(struct session *s, __u32 size)
	//
	// Callers: return programs of functions with values or predicates, before FuncPop.
	FuncLogItem = "ks_log_item"
	// FuncLogArgs captures all arguments of the innermost call into the log. It returns 0. It
	// sends a log that is full.
	//
	//	int ks_log_args(void *ctx, struct session *s, __u32 func)
	//
	// func is the low half of the cookie, the index in SessionSettings.Arguments.
	//
	// Callers: entry programs of functions with values or predicates, after FuncPush.
	FuncLogArgs = "ks_log_args"
	// FuncSatisfied notes that a call has met its predicates: the session may be reported. It returns 0.
	//
	//	int ks_satisfied(struct session *s)
	//
	// Callers: programs with predicates, when all hold.
	FuncSatisfied = "ks_satisfied"
	// FuncHit returns a frame in the log for the values of an injected probe; NULL if the session
	// is not traced, or if there is no room, which is counted as LostValues. It sends a log that
	// is full.
	//
	//	struct frame *ks_hit(struct session *s, __u32 probe, enum kind kind, __u32 size)
	//
	// size is constant: bytes of values behind the frame. The caller stores them before FuncDone.
	//
	// Callers: programs of injected probes.
	FuncHit = "ks_hit"
)
