package ap2

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// ClockSkew is the tolerated difference between the clocks of two parties.
const ClockSkew = time.Minute

// ParseTime parses an ISO 8601 time with seconds. The time zone is required, because a time
// without one is ambiguous.
func ParseTime(s string) (time.Time, error) {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700"} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("is %s, want a time with a zone such as 2026-01-31T12:00:00Z", a2a.Quote(s))
}

// Rat returns the exact value. It rejects numbers with more than 40 characters or an exponent
// beyond 30.
func (a PaymentCurrencyAmount) Rat() (*big.Rat, error) {
	text := a.Value.String()
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok {
		if n, err := strconv.Atoi(exponent); err != nil || n > 30 || n < -30 {
			return nil, fmt.Errorf("is %s, which is not an amount", a2a.Quote(text))
		}
	}
	if len(text) > 40 || strings.ContainsAny(text, "/_xX") {
		return nil, fmt.Errorf("is %s, which is not an amount", a2a.Quote(text))
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("is %s, want a number", a2a.Quote(text))
	}
	return r, nil
}

// Validate reports all violated rules.
func (a PaymentCurrencyAmount) Validate() error {
	var p a2a.Problems
	p.Check(len(a.Currency) == 3 && strings.Trim(a.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "", "currency",
		"is %s, want three upper-case letters (ISO 4217)", a2a.Quote(a.Currency))
	_, err := a.Rat()
	p.In("value", err)
	return p.Err()
}

// Validate reports all violated rules.
func (i PaymentItem) Validate() error {
	var p a2a.Problems
	p.In("amount", i.Amount.Validate())
	if n := i.RefundPeriod; n != nil && *n < 0 {
		p.Add("refund_period", "is %d, want 0 or more", *n)
	}
	return p.Err()
}

// Validate reports all violated rules.
func (o PaymentShippingOption) Validate() error {
	var p a2a.Problems
	p.Check(o.ID != "", "id", "must not be empty")
	p.In("amount", o.Amount.Validate())
	return p.Err()
}

// Validate reports all violated rules.
func (m PaymentMethodData) Validate() error {
	var p a2a.Problems
	p.Check(m.SupportedMethods != "", "supported_methods", "must not be empty")
	return p.Err()
}

// Validate reports all violated rules.
func (m PaymentDetailsModifier) Validate() error {
	var p a2a.Problems
	p.Check(m.SupportedMethods != "", "supported_methods", "must not be empty")
	if m.Total != nil {
		p.In("total", m.Total.Validate())
	}
	for i, item := range m.AdditionalDisplayItems {
		p.In(a2a.Index("additional_display_items", i), item.Validate())
	}
	return p.Err()
}

// Validate reports all violated rules: all amounts have one currency, and the total is not
// negative and equals the sum of the items, with or without the selected shipping option.
func (d PaymentDetailsInit) Validate() error {
	var p a2a.Problems
	p.Check(d.ID != "", "id", "must not be empty")
	for i, item := range d.DisplayItems {
		p.In(a2a.Index("display_items", i), item.Validate())
	}
	p.In("", d.validateShipping())
	for i, modifier := range d.Modifiers {
		p.In(a2a.Index("modifiers", i), modifier.Validate())
	}
	p.In("total", d.Total.Validate())
	if p.Err() != nil { // the sum requires valid amounts
		return p.Err()
	}
	p.In("", d.validateCurrencies())
	if p.Err() == nil {
		p.In("total.amount.value", d.validateSum())
	}
	return p.Err()
}

func (d PaymentDetailsInit) validateShipping() error {
	var p a2a.Problems
	seen, selected := make(map[string]bool), 0
	for i, option := range d.ShippingOptions {
		path := a2a.Index("shipping_options", i)
		p.In(path, option.Validate())
		p.Check(!seen[option.ID], path+".id", "occurs more than once")
		seen[option.ID] = true
		if isTrue(option.Selected) {
			selected++
		}
	}
	p.Check(selected <= 1, "shipping_options", "has %d selected options, want at most 1", selected)
	return p.Err()
}

func isTrue(b *bool) bool { return b != nil && *b }

func (d PaymentDetailsInit) validateCurrencies() error {
	var p a2a.Problems
	want := d.Total.Amount.Currency
	same := func(path string, a PaymentCurrencyAmount) {
		p.Check(a.Currency == want, path+".amount.currency", "is %s, want %s as in the total", a.Currency, want)
	}
	for i, item := range d.DisplayItems {
		same(a2a.Index("display_items", i), item.Amount)
	}
	for i, option := range d.ShippingOptions {
		same(a2a.Index("shipping_options", i), option.Amount)
	}
	for i, modifier := range d.Modifiers {
		path := a2a.Index("modifiers", i)
		if modifier.Total != nil {
			same(path+".total", modifier.Total.Amount)
		}
		for j, item := range modifier.AdditionalDisplayItems {
			same(a2a.Index(path+".additional_display_items", j), item.Amount)
		}
	}
	return p.Err()
}

// validateSum requires validated amounts.
func (d PaymentDetailsInit) validateSum() error {
	sum, shipping := new(big.Rat), new(big.Rat)
	for _, item := range d.DisplayItems {
		sum.Add(sum, amount(item.Amount))
	}
	for _, option := range d.ShippingOptions {
		if isTrue(option.Selected) {
			shipping = amount(option.Amount)
		}
	}
	total := amount(d.Total.Amount)
	if total.Sign() < 0 {
		return fmt.Errorf("is %s, want 0 or more", d.Total.Amount.Value)
	}
	if sum.Cmp(total) != 0 && shipping.Add(shipping, sum).Cmp(total) != 0 {
		return fmt.Errorf("is %s, the items add up to %s, with shipping %s", d.Total.Amount.Value, sum.FloatString(2), shipping.FloatString(2))
	}
	return nil
}

func amount(a PaymentCurrencyAmount) *big.Rat {
	r, err := a.Rat()
	if err != nil {
		return new(big.Rat)
	}
	return r
}

// Validate reports all violated rules.
func (r PaymentRequest) Validate() error {
	var p a2a.Problems
	p.Check(len(r.MethodData) > 0, "method_data", "must not be empty")
	for i, method := range r.MethodData {
		p.In(a2a.Index("method_data", i), method.Validate())
	}
	p.In("details", r.Details.Validate())
	return p.Err()
}

// Validate reports all violated rules.
func (r PaymentResponse) Validate() error {
	var p a2a.Problems
	p.Check(r.RequestID != "", "request_id", "must not be empty")
	p.Check(r.MethodName != "", "method_name", "must not be empty")
	if r.ShippingOption != nil {
		p.In("shipping_option", r.ShippingOption.Validate())
	}
	return p.Err()
}

// Validate reports all rules that are violated at the time now.
func (m IntentMandate) Validate(now time.Time) error {
	var p a2a.Problems
	p.Check(m.UserCartConfirmationRequired, "user_cart_confirmation_required", "must be true, because the intent is not signed")
	p.Check(strings.TrimSpace(m.NaturalLanguageDescription) != "", "natural_language_description", "must not be empty")
	p.In("intent_expiry", expires(m.IntentExpiry, now))
	return p.Err()
}

func expires(s string, now time.Time) error {
	t, err := ParseTime(s)
	if err != nil {
		return err
	}
	if !now.Before(t) {
		return fmt.Errorf("is %s, which is in the past", s)
	}
	return nil
}

// Validate reports all rules that are violated at the time now.
func (c CartContents) Validate(now time.Time) error {
	var p a2a.Problems
	p.Check(c.ID != "", "id", "must not be empty")
	p.In("payment_request", c.PaymentRequest.Validate())
	p.In("cart_expiry", expires(c.CartExpiry, now))
	p.Check(c.MerchantName != "", "merchant_name", "must not be empty")
	return p.Err()
}

// Validate reports all rules that are violated at the time now. A mandate without a signature
// is a valid draft.
func (m CartMandate) Validate(now time.Time) error {
	var p a2a.Problems
	p.In("contents", m.Contents.Validate(now))
	p.Check(m.MerchantAuthorization == "" || isJWS(m.MerchantAuthorization), "merchant_authorization", "is not a JWT in compact form")
	return p.Err()
}

// ValidateForPayment is like [CartMandate.Validate] but requires a signature.
func (m CartMandate) ValidateForPayment(now time.Time) error {
	var p a2a.Problems
	p.In("", m.Validate(now))
	p.Check(m.MerchantAuthorization != "", "merchant_authorization", "is required for payment")
	return p.Err()
}

// isJWS reports whether s has the format of a compact JWS. It accepts an additional layer of
// base64url, which the text of AP2 may be read to require.
func isJWS(s string) bool {
	if !strings.Contains(s, ".") {
		inner, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
		if err != nil {
			return false
		}
		s = string(inner)
	}
	pieces := strings.SplitN(s, ".", 4)
	for _, piece := range pieces {
		if _, err := base64.RawURLEncoding.DecodeString(piece); err != nil || piece == "" {
			return false
		}
	}
	return len(pieces) == 3
}

// Validate reports all rules that are violated at the time now.
func (c PaymentMandateContents) Validate(now time.Time) error {
	var p a2a.Problems
	p.Check(c.PaymentMandateID != "", "payment_mandate_id", "must not be empty")
	p.In("payment_details_total", c.PaymentDetailsTotal.Validate())
	p.Check(amount(c.PaymentDetailsTotal.Amount).Sign() >= 0, "payment_details_total.amount.value", "is %s, want 0 or more", c.PaymentDetailsTotal.Amount.Value)
	p.In("payment_response", c.PaymentResponse.Validate())
	p.Check(c.PaymentDetailsID != "", "payment_details_id", "must not be empty")
	p.Check(c.PaymentResponse.RequestID == c.PaymentDetailsID, "payment_response.request_id", "is %s, want the payment_details_id", a2a.Quote(c.PaymentResponse.RequestID))
	p.Check(c.MerchantAgent != "", "merchant_agent", "must not be empty")
	t, err := ParseTime(c.Timestamp)
	p.In("timestamp", err)
	p.Check(err != nil || !t.After(now.Add(ClockSkew)), "timestamp", "is %s, which is in the future", c.Timestamp)
	return p.Err()
}

// Validate reports all rules that are violated at the time now. The user's proof is required.
func (m PaymentMandate) Validate(now time.Time) error {
	var p a2a.Problems
	p.In("payment_mandate_contents", m.PaymentMandateContents.Validate(now))
	p.Check(m.UserAuthorization != "", "user_authorization", "is required")
	return p.Err()
}
