// SPDX-License-Identifier: Apache-2.0

package bpf

// The functions of the engine that generated code calls, by their names in C. Each comment shows the
// C prototype and says what the function does for its caller; how it does so is told where the
// function is. TestContracts holds the comments to the objects.
//
// Arguments are in R1 to R5 in the order of the prototype, the result is in R0. A call changes R0 to
// R5 and no other register. An argument that is called constant must be known to the verifier.
//
// A function may be called wherever its program may run: in threads and in interrupts of all kinds.
// It waits for nothing. A function that "sends" writes to the ring buffer, whose lock it takes: a
// program that needs the guard (codegen.GuardFor) holds it around the call, a session is held by its
// busy flag. All other functions take no lock.
//
// "Programs of calls" are those of SPECs whose calls are sent one by one, "programs of sessions"
// those of functions that are recorded in sessions. Either have an entry and a return program.
const (
	// FuncCount counts a fault of a predicate or a capture that was cut off.
	//
	//	void ks_count(enum counter which)
	//
	// Callers: all programs that evaluate predicates or capture strings and buffers.
	FuncCount = "ks_count"
	// FuncFilter returns 1 if Settings.Filter lets the current task pass, else 0.
	//
	//	int ks_filter(__u32 trap)
	//
	// trap is 1 for a probe inside a function: a breakpoint may have led there, which the kernel
	// counts as an interrupt.
	//
	// Callers: the first program of a call, before it keeps or sends anything.
	FuncFilter = "ks_filter"
	// FuncAdmit returns 1 if Settings.Rate lets a call pass, else 0.
	//
	//	int ks_admit(void)
	//
	// What is beyond the rate is counted as RateLimited. Calls of ksnoop itself never pass.
	//
	// Callers: the program that sends the first record of a call, last before that.
	FuncAdmit = "ks_admit"
	// FuncSend sends a record without a tail. It returns 0.
	//
	//	int ks_send(void *ctx, __u32 probe, enum kind kind, __u32 size)
	//
	// size is constant: all bytes of the record, EventSize included. FuncCapture stores the
	// values. A record for which the ring buffer has no room is counted as LostRingbuf. Nothing
	// is sent of ksnoop itself.
	//
	// Callers: programs of calls that send what nothing was kept for.
	FuncSend = "ks_send"
	// FuncSendTail is FuncSend for a record with a tail.
	//
	//	int ks_send_tail(void *ctx, __u32 probe, enum take how, __u32 size, __u64 ticket)
	//
	// how is constant, from Take.With. ticket is that of AppendSnapshot, 0 if the tail has no
	// branches. If all buffers are in use, the record is counted as LostScratch. It sends.
	//
	// Callers: as of FuncSend.
	FuncSendTail = "ks_send_tail"
	// FuncSendList is FuncSendTail for a record whose values are those of the probe's list in
	// MapLists. It calls no FuncCapture.
	//
	//	int ks_send_list(void *ctx, __u32 probe, enum take how, __u64 ticket)
	//
	// It sends.
	//
	// Callers: shared programs of calls whose values are listed, as of FuncSend.
	FuncSendList = "ks_send_list"
	// FuncCapture is generated: it stores the values of a record at data, behind the event, and
	// returns which slots could not be read, bit i for slot i.
	//
	//	__u64 ks_capture(void *ctx, void *data)
	//
	// Callers: FuncSend, FuncSendTail, FuncFinish and FuncFinishTail. The engine's own stores nothing.
	FuncCapture = "ks_capture"

	// FuncRow returns the row of a key in one of Settings.Tables, a new one of zeroes if there was none
	// yet; NULL if there is no room, which is counted as LostKey.
	//
	//	__u64 *ks_row(__u64 *key, __u32 number)
	//
	// key has the words of the table's keys. number is constant.
	//
	// Callers: programs of calls that are added up by key.
	FuncRow = "ks_row"
	// FuncRaise sets a word of a row to x if that is more. It returns 0.
	//
	//	int ks_raise(__u64 *word, __u64 x)
	//
	// Callers: programs of calls of which a minimum or a maximum is wanted.
	FuncRaise = "ks_raise"
	// FuncObserve adds x to the candidates of a row of top(). It returns 0.
	//
	//	int ks_observe(__u64 *row, __u64 x, __u32 candidates, __u32 key_words)
	//
	// candidates, a power of two, and key_words are constant. If a program below this one is just
	// changing the row, the call is counted as LostRow.
	//
	// Callers: programs of calls whose most frequent values are wanted.
	FuncObserve = "ks_observe"
	// FuncKeyComm stores the name of the current task, 16 bytes, and what lies behind its end.
	//
	//	int ks_key_comm(__u64 *to)
	//
	// Callers: programs of calls that are added up by $comm.
	FuncKeyComm = "ks_key_comm"
	// FuncStackBuffer returns a buffer for KeptStackSize bytes; NULL if all are in use, which is counted
	// as LostScratch. The caller owns it until FuncKeepStack.
	//
	//	__u64 *ks_stack_buffer(void)
	//
	// Callers: programs of calls that are added up by stack.
	FuncStackBuffer = "ks_stack_buffer"
	// FuncKeepStack keeps a stack of so many bytes in MapStacks, unless it is there already, and returns
	// its number; 0 if there is no room, which is counted as LostKeptStack, or if size is not above 0.
	//
	//	__u32 ks_keep_stack(__u64 *address, __s64 size, __u32 user)
	//
	// address is that of FuncStackBuffer. user, which is constant, is 1 for a stack of user space.
	//
	// Callers: as of FuncStackBuffer.
	FuncKeepStack = "ks_keep_stack"
	// FuncNewStack keeps a stack of count addresses like FuncKeepStack, and returns its number.
	//
	//	__u32 ks_new_stack(__u64 *address, __u64 hash, __u32 count, __u32 tgid)
	//
	// hash is that of AppendStackHash, tgid 0 for a stack of the kernel.
	//
	// Callers: programs of calls that are added up by the kernel's stack.
	FuncNewStack = "ks_new_stack"

	// FuncOpen takes the frame of a call and returns it; NULL if there is no room, which is
	// counted as LostStash.
	//
	//	struct frame *ks_open(__u64 sp, __u32 probe, __u32 timed)
	//
	// sp is an address in the stack frame that the call itself has, the same at entry and return;
	// it may be a pointer. No slot of the frame's event is marked as unreadable. Its entry time
	// is set if timed, a constant, is 1; else it is 0. The caller owns the frame until FuncFree
	// or FuncForget.
	//
	// Callers: entry programs of calls of the kernel's functions that keep something, except where AppendClaim does it.
	FuncOpen = "ks_open"
	// FuncOpenUser is FuncOpen for a function of the process. It also returns NULL if the kernel will not show the
	// return of the call, which is counted as UnseenReturn.
	//
	//	struct frame *ks_open_user(__u64 key, __u32 probe, __u32 timed, void *ctx, __u64 user_sp)
	//
	// key is made of user_sp, the stack pointer in user space at entry, and of the address of the context, as
	// codegen does it. Of calls by jumps, all with the same user_sp, each has a frame of its own.
	//
	// Callers: entry programs of calls of functions of the process that keep something.
	FuncOpenUser = "ks_open_user"
	// FuncOpenFar is FuncOpen for a call whose home AppendClaim has found taken. It sets the
	// probe of the frame and nothing else.
	//
	//	struct frame *ks_open_far(__u64 address, __u32 probe)
	//
	// Callers: entry programs of calls by fentry that are not shared.
	FuncOpenFar = "ks_open_far"
	// FuncFind returns the frame that the entry program has taken, NULL if it took none.
	//
	//	struct frame *ks_find(__u64 sp, __u32 probe)
	//
	// Callers: return programs of calls of the kernel's functions, except where AppendHome does it.
	FuncFind = "ks_find"
	// FuncFindUser is FuncFind for a function of the process: the frame of the last call with this key.
	//
	//	struct frame *ks_find_user(__u64 key, __u32 probe)
	//
	// It has to be called once for each return.
	//
	// Callers: return programs of calls of functions of the process.
	FuncFindUser = "ks_find_user"
	// FuncFindFar is FuncFind for a frame that is not at home.
	//
	//	struct frame *ks_find_far(__u64 address, __u32 probe)
	//
	// Callers: return programs of calls by fentry that are not shared, if AppendFar is not 0.
	FuncFindFar = "ks_find_far"
	// FuncForget gives back the frame of an earlier call with the same sp and probe, whose return
	// was not seen, if there is one. It returns 0.
	//
	//	int ks_forget(__u64 sp, __u32 probe)
	//
	// Callers: entry programs of calls by fentry that are not shared, for a call that is not
	// wanted: its return program would take the frame for that of this call.
	FuncForget = "ks_forget"
	// FuncForgetUser is FuncForget for a function of the process, unless the call was reached by a jump from one of these.
	//
	//	int ks_forget_user(__u64 key, __u32 probe, void *ctx, __u64 user_sp)
	//
	// key and user_sp are those of FuncOpenUser.
	//
	// Callers: entry programs of calls of functions of the process, for a call that is not wanted or has got no frame.
	FuncForgetUser = "ks_forget_user"
	// FuncFree gives a frame back. The caller must not use it any more. It returns 0.
	//
	//	int ks_free(struct frame *f)
	//
	// Callers: return programs of calls, whether the call was sent or not.
	FuncFree = "ks_free"
	// FuncFinish completes the record in a frame with what is captured at return, and sends it.
	// It returns 0. The frame remains the caller's.
	//
	//	int ks_finish(void *ctx, struct frame *f, enum kind kind, __u32 size)
	//
	// size is constant, as of FuncSend. FuncCapture stores the values behind f's event, where
	// those of the entry are already. Losses are counted as by FuncSend.
	//
	// Callers: return programs of calls for which a frame was kept.
	FuncFinish = "ks_finish"
	// FuncFinishTail is FuncFinish for a record with a tail; see FuncSendTail. It sends.
	//
	//	int ks_finish_tail(void *ctx, struct frame *f, enum take how, __u32 size, __u64 ticket)
	//
	// Callers: as of FuncFinish.
	FuncFinishTail = "ks_finish_tail"
	// FuncStashList captures the values of the probe's list for the entry into a frame. It returns 0.
	//
	//	int ks_stash_list(void *ctx, struct frame *f)
	//
	// If all buffers are in use, that is counted as LostScratch, and the frame is given back:
	// either way the caller must not use it any more.
	//
	// Callers: shared entry programs of calls whose values are listed, after FuncOpen or FuncOpenUser.
	FuncStashList = "ks_stash_list"
	// FuncFinishList is FuncFinishTail for a record whose values are those of the probe's list
	// for the return, and, if the record is that of the whole call, those in the frame. It sends.
	//
	//	int ks_finish_list(void *ctx, struct frame *f, enum take how, __u64 ticket)
	//
	// Callers: shared return programs of calls whose values are listed, as of FuncFinish.
	FuncFinishList = "ks_finish_list"

	// FuncEnterPath marks a call of a function with sites, so that what it passes is not taken for
	// the way of a call that it is made in. It returns 0.
	//
	//	int ks_enter_path(__u64 sp)
	//
	// sp is the stack pointer at the first instruction. No room is not counted, for the call may not be wanted.
	//
	// Callers: entry programs of calls by kprobes whose ways are wanted, before all predicates.
	FuncEnterPath = "ks_enter_path"
	// FuncOpenPath has what a call passes kept. It returns 0. If there is no room, the call is counted
	// as LostPath.
	//
	//	int ks_open_path(__u64 sp, __u32 probe)
	//
	// Callers: as of FuncEnterPath, for a call that is wanted.
	FuncOpenPath = "ks_open_path"
	// FuncLeavePath forgets the call, wanted or not. It returns 0.
	//
	//	int ks_leave_path(__u64 sp)
	//
	// Callers: return programs of such calls, last.
	FuncLeavePath = "ks_leave_path"

	// FuncIDs returns the numbers of the current process, in the upper half, and thread in the
	// PID namespace of Settings.Namespace; 0 where they have none.
	//
	//	__u64 ks_ids(void)
	//
	// Callers: programs with $pid or $tid, where ksnoop is not in the initial namespace.
	FuncIDs = "ks_ids"
	// FuncCookie returns the cookie that the link has for the function that was hit.
	//
	//	__u64 ks_cookie(void *ctx)
	//
	// Callers: shared programs of all methods but kprobe.
	FuncCookie = "ks_cookie"
	// FuncSite returns the same from MapSites, by the address of the function; -1 if it is not there.
	//
	//	__s64 ks_site(void *ctx, __u64 layer)
	//
	// layer is that of Site.
	//
	// Callers: shared programs of kprobes, whose links have no cookies.
	FuncSite = "ks_site"
	// FuncPreemptCount returns the kernel's preemption count, which tells interrupts apart, with the bits that Linux had
	// from 2.6.30 to 7.2.
	//
	//	__u32 ks_preempt_count(void)
	//
	// codegen.PreemptCount generates it for the kernel at hand, for Settings.Subprograms. The
	// engine's own returns 0.
	//
	// Callers: FuncFilter, FuncAdmit, FuncAway, FuncSession, FuncOpenSession, FuncAround, FuncEnter, FuncLeave, FuncEnterUser, FuncLeaveUser,
	// FuncPush, FuncPushUser, FuncSend, FuncSendTail, FuncSendList, FuncFinish, FuncFinishTail and FuncFinishList.
	FuncPreemptCount = "ks_preempt_count"
	// FuncHold holds the stack of a program whose place in the guard's table AppendHold has found
	// taken. It returns another place, NULL if the stack is held already: the call is counted in
	// VarGuarded and must be left alone.
	//
	//	struct guard *ks_hold(__u32 stack)
	//
	// stack is the number that AppendHold has computed.
	//
	// Callers: programs of calls that need the guard.
	FuncHold = "ks_hold"
	// FuncLetGo lets go of a place that FuncHold has returned and that is not the stack's home,
	// which AppendAway tells. It returns 0.
	//
	//	int ks_let_go(struct guard *g)
	//
	// Callers: as of FuncHold.
	FuncLetGo = "ks_let_go"

	// FuncWords stores the first n words of a call's arguments at words, where there is room for
	// MaxArgWords. It returns 0.
	//
	//	int ks_words(void *ctx, __u64 *words, __u32 n)
	//
	// The engine's own is for programs that are given registers; the programs of trampolines have
	// one that is generated. It may store more than n words.
	//
	// Callers: FuncLogArgs, FuncEnter, FuncEnterUser, FuncSendList, FuncStashList and FuncFinishList.
	FuncWords = "ks_words"
	// FuncResult returns what a call returns; at entry the result has no meaning. It is replaced
	// like FuncWords.
	//
	//	__u64 ks_result(void *ctx)
	//
	// Callers: FuncSendList, FuncStashList and FuncFinishList.
	FuncResult = "ks_result"
	// FuncPlace returns the place of a call of a function of the process: the stack pointer in user space
	// that it was called with, at return too. It is generated where records have it. The engine's own
	// returns 0.
	//
	//	__u64 ks_place(void *ctx)
	//
	// Callers: FuncSendList, FuncStashList and FuncFinishList.
	FuncPlace = "ks_place"
	// FuncReturnAddress returns the address that a call returns to. It is replaced like
	// FuncWords: trampolines do not know the address, and return 0.
	//
	//	__u64 ks_return_address(void *ctx)
	//
	// Callers: FuncLeave, FuncLeaveUser and FuncPop.
	FuncReturnAddress = "ks_return_address"
)
