package suites

// rawScripts are what the upstream does frame by frame, by path.
var rawScripts = map[string]func(*rawConn, *transcript){
	"/frames":      mirrorFrames,
	"/early":       mirrorFrames,
	"/push":        pushFrames,
	"/drop":        afterOne(func(c *rawConn) { _ = c.Close() }),
	"/reset":       afterOne((*rawConn).reset),
	"/drop-head":   afterOne(func(c *rawConn) { _, _ = c.Write(cutFrame.bytes()[:3]) }),
	"/drop-body":   afterOne(func(c *rawConn) { _, _ = c.Write(cutFrame.bytes()[:100]) }),
	"/drop-first":  func(*rawConn, *transcript) {},
	"/reset-first": func(c *rawConn, _ *transcript) { c.reset() },
	"/half":        halfClose,
	"/late":        lateAnswer,
}

// cutFrame is sent in part.
var cutFrame = frame{opcode: opBinary, payload: pattern(300)}

// mirrorFrames sends every frame back as it came, a ping as a pong, a pong not
// at all, and ends after a close.
func mirrorFrames(c *rawConn, log *transcript) {
	for {
		f, err := readFrame(c.r)
		if err != nil {
			log.add("the peer ended")
			return
		}
		log.add("%v", f)
		switch f.opcode {
		case opPing:
			f.opcode = opPong
		case opPong:
			continue
		}
		if err := c.send(f); err != nil {
			log.add("the peer takes no more")
			return
		}
		if f.opcode == opClose {
			return
		}
	}
}

// pushFrames sends what the first frame's payload describes: a letter for each
// frame, of as many bytes as follow it. What comes back is logged.
func pushFrames(c *rawConn, log *transcript) {
	order, err := readFrame(c.r)
	if err != nil {
		log.add("the peer ended")
		return
	}
	if err := c.send(script(string(order.payload))...); err != nil {
		log.add("the peer takes no more")
	}
	c.receive(log)
}

// afterOne does something after the first frame, and ends.
func afterOne(do func(*rawConn)) func(*rawConn, *transcript) {
	return func(c *rawConn, log *transcript) {
		f, err := readFrame(c.r)
		log.add("%v, error: %t", f, err != nil)
		do(c)
	}
}

// halfClose says all it has to say after the first frame, and listens on.
func halfClose(c *rawConn, log *transcript) {
	f, err := readFrame(c.r)
	log.add("%v, error: %t", f, err != nil)
	_ = c.send(f)
	_ = c.CloseWrite()
	c.receive(log)
}

// lateAnswer listens until the peer has said all, and answers then.
func lateAnswer(c *rawConn, log *transcript) {
	c.receive(log)
	if err := c.send(frame{opcode: opText, payload: []byte("late")}); err != nil {
		log.add("the peer takes no more")
	}
}

// script makes frames of a description such as "T3P0c2C5": a text message
// in three fragments with a ping after the first. T and B begin a message in
// fragments, c goes on with it, C ends it; t and b are whole messages; P is a
// ping, O a pong. The digit tells the payload's length: see [lengths].
func script(words string) (frames []frame) {
	for i := 0; i+1 < len(words); i += 2 {
		f := frame{payload: pattern(lengths[words[i+1]-'0'])}
		switch words[i] {
		case 'T':
			f.opcode, f.more = opText, true
		case 'B':
			f.opcode, f.more = opBinary, true
		case 'c':
			f.more = true
		case 'C':
		case 't':
			f.opcode = opText
		case 'b':
			f.opcode = opBinary
		case 'P':
			f.opcode = opPing
		case 'O':
			f.opcode = opPong
		default:
			panic("no such word: " + words[i:])
		}
		frames = append(frames, f)
	}
	return frames
}

// lengths are where RFC 6455 §5.2 writes a length differently, and one that is
// beyond every buffer.
var lengths = []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 20}

// pattern returns bytes that are valid UTF-8, compress a little and show every
// loss.
func pattern(n int) []byte {
	p := make([]byte, n)
	x := uint32(n) + 1
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = 'a' + byte(x>>28)
	}
	return p
}
