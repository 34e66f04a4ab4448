package fileref

import "io"

// Source is content that a handler writes. It can be read again if nothing was read yet, or if it is an
// io.Seeker.
type Source struct {
	io.Reader
	seeker  io.Seeker
	start   int64
	started bool
}

// NewSource returns the content of r, from its present position.
func NewSource(r io.Reader) *Source {
	s := &Source{Reader: r}
	if seeker, ok := r.(io.Seeker); ok {
		if at, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			s.seeker, s.start = seeker, at
		}
	}
	return s
}

// Read implements io.Reader.
func (s *Source) Read(p []byte) (int, error) {
	s.started = true
	return s.Reader.Read(p)
}

// Rewind returns to the start of the content. It reports false if it cannot.
func (s *Source) Rewind() bool {
	if !s.started {
		return true
	}
	if s.seeker == nil {
		return false
	}
	_, err := s.seeker.Seek(s.start, io.SeekStart)
	s.started = err != nil
	return err == nil
}
