package cardsig

import "testing"

// The example of RFC 7515 appendix A.2. Its payload is not an agent card.
func TestRS256SignatureOfRFC7515IsValid(t *testing.T) {
	t.Parallel()
	const (
		n = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-" +
			"bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
		input     = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
		signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6x" +
			"BArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
	)
	keys, err := ParseKeys([]byte(`{"keys":[{"kty":"RSA","n":"` + n + `","e":"AQAB"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b64.DecodeString(signature)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		algorithm, input string
		want             bool
	}{
		{RS256, input, true},
		{RS256, input + "x", false},
		{PS256, input, false},
	} {
		if got := keys[0].valid(c.algorithm, []byte(c.input), raw); got != c.want {
			t.Errorf("valid(%s, %s) = %t, want %t", c.algorithm, c.input, got, c.want)
		}
	}
}
