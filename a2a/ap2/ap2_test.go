package ap2_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/a2a/ap2"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

type vectors struct {
	VerifyAt               int64           `json:"verify_at"`
	IntentMandate          json.RawMessage `json:"intent_mandate"`
	CartContentsRaw        string          `json:"cart_contents_raw"`
	CartContentsCanonical  string          `json:"cart_contents_canonical"`
	CartMandate            json.RawMessage `json:"cart_mandate"`
	PaymentMandateContents json.RawMessage `json:"payment_mandate_contents"`
	PaymentMandate         json.RawMessage `json:"payment_mandate"`
}

func readVectors(t *testing.T) (v vectors, now time.Time) {
	t.Helper()
	readJSON(t, "ap2_vectors.json", &v)
	return v, time.Unix(v.VerifyAt, 0)
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile("../testdata/" + name)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func decode[T any](t *testing.T, text []byte) T {
	t.Helper()
	var v T
	if err := wire.Unmarshal(text, &v); err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	return v
}

// dropNulls removes null members of objects, as the canonical form does.
func dropNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			if item == nil {
				delete(v, k)
			} else {
				dropNulls(item)
			}
		}
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	}
	return v
}

func TestVectorsRoundTripWithoutNulls(t *testing.T) {
	t.Parallel()
	v, _ := readVectors(t)
	for name, test := range map[string]struct {
		text []byte
		v    any
	}{
		"intent":                   {v.IntentMandate, new(ap2.IntentMandate)},
		"cart contents":            {[]byte(v.CartContentsRaw), new(ap2.CartContents)},
		"canonical cart contents":  {[]byte(v.CartContentsCanonical), new(ap2.CartContents)},
		"cart mandate":             {v.CartMandate, new(ap2.CartMandate)},
		"payment mandate contents": {v.PaymentMandateContents, new(ap2.PaymentMandateContents)},
		"payment mandate":          {v.PaymentMandate, new(ap2.PaymentMandate)},
	} {
		if err := wire.Unmarshal(test.text, test.v); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out, err := wire.Marshal(test.v)
		var got, want any
		if err := errors.Join(err, json.Unmarshal(out, &got), json.Unmarshal(test.text, &want)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(dropNulls(want), got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestVectorsAreValid(t *testing.T) {
	t.Parallel()
	v, now := readVectors(t)
	cart, payment := decode[ap2.CartMandate](t, v.CartMandate), decode[ap2.PaymentMandate](t, v.PaymentMandate)
	if err := errors.Join(decode[ap2.IntentMandate](t, v.IntentMandate).Validate(now), cart.ValidateForPayment(now), payment.Validate(now)); err != nil {
		t.Errorf("the vectors are invalid: %v", err)
	}
}

// An x402 payment is free-form data inside a data part and a payment response.
func TestX402PayloadsRoundTrip(t *testing.T) {
	t.Parallel()
	var x402 struct {
		Cases []struct{ Payload map[string]any }
	}
	readJSON(t, "x402_vectors.json", &x402)
	if len(x402.Cases) == 0 {
		t.Fatal("x402_vectors.json has no cases")
	}
	for _, c := range x402.Cases {
		part := map[string]any{"kind": "data", "data": map[string]any{"x402.payment.payload": c.Payload}}
		response := map[string]any{"requestId": "r", "method_name": "https://www.x402.org/", "details": c.Payload}
		out, err := wire.Marshal(decode[a2a.DataPart](t, marshal(t, part)))
		if diff := cmp.Diff(part, unmarshal(t, out)); err != nil || diff != "" {
			t.Errorf("data part: %v (-want +got)\n%s", err, diff)
		}
		got := decode[ap2.PaymentResponse](t, marshal(t, response)).Details
		if diff := cmp.Diff(c.Payload, got); diff != "" {
			t.Errorf("details: (-want +got)\n%s", diff)
		}
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func unmarshal(t *testing.T, text []byte) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func problems(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var e *a2a.InvalidError
	if !errors.As(err, &e) {
		t.Fatalf("error %v is a %T, want an *a2a.InvalidError", err, err)
	}
	var texts []string
	for _, p := range e.Problems {
		texts = append(texts, p.String())
	}
	return texts
}

func usd(value string) ap2.PaymentCurrencyAmount {
	return ap2.PaymentCurrencyAmount{Currency: "USD", Value: json.Number(value)}
}

func item(value string) ap2.PaymentItem { return ap2.PaymentItem{Label: "l", Amount: usd(value)} }

func ptr[T any](v T) *T { return &v }

func TestValidateAmounts(t *testing.T) {
	t.Parallel()
	for value, ok := range map[string]bool{
		"0": true, "1.10": true, "-3": true, "1e2": true, "1E+2": true, "123456789012345678.99": true,
		"": false, "1/3": false, "0x10": false, "1_0": false, "NaN": false, "Inf": false, "1e31": false, "1e999999999": false,
		"1e99999999999999999999": false, strings.Repeat("9", 41): false, "abc": false,
	} {
		if err := usd(value).Validate(); (err == nil) != ok {
			t.Errorf("Validate of %q USD = %v, want it valid: %t", value, err, ok)
		}
	}
	for _, currency := range []string{"", "usd", "US", "USDC", "€"} {
		got := problems(t, ap2.PaymentCurrencyAmount{Currency: currency, Value: "1"}.Validate())
		if len(got) != 1 || !strings.HasPrefix(got[0], "currency is ") {
			t.Errorf("currency %q: %v, want one error", currency, got)
		}
	}
	if r, err := usd("1.10").Rat(); err != nil || r.String() != "11/10" {
		t.Errorf("Rat of 1.10 = %v, %v, want 11/10", r, err)
	}
}

func TestValidatePaymentRequests(t *testing.T) {
	t.Parallel()
	order := func(change func(*ap2.PaymentDetailsInit)) ap2.PaymentRequest {
		d := ap2.PaymentDetailsInit{
			ID: "o", DisplayItems: []ap2.PaymentItem{item("0.1"), item("0.2")}, Total: item("0.3"),
			ShippingOptions: []ap2.PaymentShippingOption{{ID: "a", Amount: usd("2")}, {ID: "b", Amount: usd("1")}},
		}
		change(&d)
		return ap2.PaymentRequest{MethodData: []ap2.PaymentMethodData{{SupportedMethods: "CARD"}}, Details: d}
	}
	for _, test := range []struct {
		name string
		v    ap2.PaymentRequest
		want []string
	}{
		{"items that add up to the total", order(func(*ap2.PaymentDetailsInit) {}), nil},
		{"with shipping", order(func(d *ap2.PaymentDetailsInit) { d.Total, d.ShippingOptions[1].Selected = item("1.30"), ptr(true) }), nil},
		{"with shipping among the items", order(func(d *ap2.PaymentDetailsInit) { d.ShippingOptions[1].Selected = ptr(true) }), nil},
		{"a wrong total", order(func(d *ap2.PaymentDetailsInit) { d.Total = item("0.30000001") }), []string{"details.total.amount.value is 0.30000001, the items add up to 0.30, with shipping 0.30"}},
		{"a negative total", order(func(d *ap2.PaymentDetailsInit) { d.Total, d.DisplayItems = item("-1"), []ap2.PaymentItem{item("-1")} }), []string{"details.total.amount.value is -1, want 0 or more"}},
		{"two currencies", order(func(d *ap2.PaymentDetailsInit) {
			d.DisplayItems[1].Amount.Currency, d.ShippingOptions[0].Amount.Currency = "EUR", "EUR"
			euro := item("1")
			euro.Amount.Currency = "EUR"
			d.Modifiers = []ap2.PaymentDetailsModifier{{SupportedMethods: "x", Total: &euro, AdditionalDisplayItems: []ap2.PaymentItem{euro}}}
		}), []string{
			"details.display_items[1].amount.currency is EUR, want USD as in the total", "details.shipping_options[0].amount.currency is EUR, want USD as in the total",
			"details.modifiers[0].total.amount.currency is EUR, want USD as in the total", "details.modifiers[0].additional_display_items[0].amount.currency is EUR, want USD as in the total",
		}},
		{"options alike and both selected", order(func(d *ap2.PaymentDetailsInit) {
			d.ShippingOptions[1].ID, d.ShippingOptions[0].Selected, d.ShippingOptions[1].Selected = "a", ptr(true), ptr(true)
		}), []string{"details.shipping_options[1].id occurs more than once", "details.shipping_options has 2 selected options, want at most 1"}},
		{"bad members", order(func(d *ap2.PaymentDetailsInit) {
			d.ID, d.DisplayItems[0].RefundPeriod, d.ShippingOptions[0].ID, d.Total.Amount.Value = "", ptr(-1), "", "x"
			d.Modifiers = []ap2.PaymentDetailsModifier{{Total: &ap2.PaymentItem{Amount: usd("y")}, AdditionalDisplayItems: []ap2.PaymentItem{item("z")}}}
		}), []string{
			"details.id must not be empty", "details.display_items[0].refund_period is -1, want 0 or more", "details.shipping_options[0].id must not be empty",
			"details.modifiers[0].supported_methods must not be empty", `details.modifiers[0].total.amount.value is "y", want a number`,
			`details.modifiers[0].additional_display_items[0].amount.value is "z", want a number`, `details.total.amount.value is "x", which is not an amount`,
		}},
		{"no methods", ap2.PaymentRequest{Details: order(func(*ap2.PaymentDetailsInit) {}).Details}, []string{"method_data must not be empty"}},
		{"an empty method", ap2.PaymentRequest{MethodData: make([]ap2.PaymentMethodData, 1), Details: order(func(*ap2.PaymentDetailsInit) {}).Details}, []string{"method_data[0].supported_methods must not be empty"}},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.v.Validate())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

func TestValidateMandates(t *testing.T) {
	t.Parallel()
	v, now := readVectors(t)
	intent, cart := decode[ap2.IntentMandate](t, v.IntentMandate), decode[ap2.CartMandate](t, v.CartMandate)
	payment := decode[ap2.PaymentMandate](t, v.PaymentMandate)

	unconfirmed, draft, forged, unsigned, other := intent, cart, cart, payment, payment
	unconfirmed.UserCartConfirmationRequired, unconfirmed.NaturalLanguageDescription, unconfirmed.IntentExpiry = false, " ", "tomorrow"
	draft.MerchantAuthorization = ""
	forged.MerchantAuthorization = "a.b"
	unsigned.UserAuthorization = ""
	other.PaymentMandateContents = ap2.PaymentMandateContents{
		PaymentDetailsTotal: item("-1"), PaymentResponse: ap2.PaymentResponse{RequestID: "r", ShippingOption: &ap2.PaymentShippingOption{Amount: usd("1")}}, Timestamp: "2027-01-01T00:00:00Z",
	}
	after := now.Add(48 * time.Hour)
	for _, test := range []struct {
		name string
		err  error
		want []string
	}{
		{"an intent", intent.Validate(now), nil},
		{"an intent that has expired", intent.Validate(after), []string{"intent_expiry is 2026-01-02T00:00:00Z, which is in the past"}},
		{"an intent at its expiry", intent.Validate(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)), []string{"intent_expiry is 2026-01-02T00:00:00Z, which is in the past"}},
		{"a bad intent", unconfirmed.Validate(now), []string{
			"user_cart_confirmation_required must be true, because the intent is not signed", "natural_language_description must not be empty",
			`intent_expiry is "tomorrow", want a time with a zone such as 2026-01-31T12:00:00Z`,
		}},
		{"a cart that has expired", cart.Validate(after), []string{"contents.cart_expiry is 2026-01-01T00:30:00Z, which is in the past"}},
		{"a draft", draft.Validate(now), nil},
		{"a draft to be paid", draft.ValidateForPayment(now), []string{"merchant_authorization is required for payment"}},
		{"a cart with no JWT", forged.Validate(now), []string{"merchant_authorization is not a JWT in compact form"}},
		{"a payment", payment.Validate(now), nil},
		{"a payment from the future", payment.Validate(now.Add(-time.Hour)), []string{"payment_mandate_contents.timestamp is 2026-01-01T00:01:00Z, which is in the future"}},
		{"a payment without proof", unsigned.Validate(now), []string{"user_authorization is required"}},
		{"a bad payment", other.Validate(now), []string{
			"payment_mandate_contents.payment_mandate_id must not be empty", "payment_mandate_contents.payment_details_total.amount.value is -1, want 0 or more",
			"payment_mandate_contents.payment_response.method_name must not be empty", "payment_mandate_contents.payment_response.shipping_option.id must not be empty",
			"payment_mandate_contents.payment_details_id must not be empty", `payment_mandate_contents.payment_response.request_id is "r", want the payment_details_id`,
			"payment_mandate_contents.merchant_agent must not be empty", "payment_mandate_contents.timestamp is 2027-01-01T00:00:00Z, which is in the future",
		}},
	} {
		if diff := cmp.Diff(test.want, problems(t, test.err)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, s := range []string{"2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z", "2026-01-31T13:00:00+01:00", "2026-01-31T13:00:00+0100"} {
		if got, err := ap2.ParseTime(s); err != nil || !got.Equal(want) {
			t.Errorf("ParseTime(%s) = %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "2026-01-31", "2026-01-31T12:00:00", "1767225600", "2026-13-01T00:00:00Z"} {
		if got, err := ap2.ParseTime(s); err == nil {
			t.Errorf("ParseTime(%s) = %v, want an error", s, got)
		}
	}
}

func TestDataKeysNameTheirObjects(t *testing.T) {
	t.Parallel()
	for key, v := range map[ap2.DataKey]any{
		ap2.KeyContactAddress: ap2.ContactAddress{}, ap2.KeyPaymentMethodData: ap2.PaymentMethodData{}, ap2.KeyCartMandate: ap2.CartMandate{},
		ap2.KeyIntentMandate: ap2.IntentMandate{}, ap2.KeyPaymentMandate: ap2.PaymentMandate{},
	} {
		if name := reflect.TypeOf(v).Name(); !strings.HasSuffix(string(key), "."+name) {
			t.Errorf("the key of %s is %s", name, key)
		}
	}
}
