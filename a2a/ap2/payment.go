package ap2

import "encoding/json"

// DataKey is a key in the data of an [a2a.DataPart]. Its value is an AP2 object. The data may
// also have a text under risk_data.
type DataKey string

// The keys. Their names end with the type of the object.
const (
	KeyContactAddress    DataKey = "contact_picker.ContactAddress"
	KeyPaymentMethodData DataKey = "payment_request.PaymentMethodData"
	KeyCartMandate       DataKey = "ap2.mandates.CartMandate"
	KeyIntentMandate     DataKey = "ap2.mandates.IntentMandate"
	KeyPaymentMandate    DataKey = "ap2.mandates.PaymentMandate"
)

// EnumValues returns the known keys.
func (DataKey) EnumValues() []string {
	return []string{
		string(KeyContactAddress), string(KeyPaymentMethodData), string(KeyCartMandate),
		string(KeyIntentMandate), string(KeyPaymentMandate),
	}
}

// ShippingType is the kind of delivery of an order. AP2 allows other values; see
// [ShippingType.Known].
type ShippingType string

// The shipping types that AP2 defines.
const (
	ShippingShipping ShippingType = "shipping"
	ShippingDelivery ShippingType = "delivery"
	ShippingPickup   ShippingType = "pickup"
)

// Known reports whether AP2 defines t.
func (t ShippingType) Known() bool {
	switch t {
	case ShippingShipping, ShippingDelivery, ShippingPickup:
		return true
	default:
		return false
	}
}

// ContactAddress is a postal address (W3C Contact Picker). All members are
// optional.
type ContactAddress struct {
	City              string   `json:"city,omitempty"`
	Country           string   `json:"country,omitempty"` // ISO 3166-1 alpha-2 by convention
	DependentLocality string   `json:"dependent_locality,omitempty"`
	Organization      string   `json:"organization,omitempty"`
	PhoneNumber       string   `json:"phone_number,omitempty"`
	PostalCode        string   `json:"postal_code,omitempty"`
	Recipient         string   `json:"recipient,omitempty"`
	Region            string   `json:"region,omitempty"` // state or province
	SortingCode       string   `json:"sorting_code,omitempty"`
	AddressLine       []string `json:"address_line,omitempty"`
}

// PaymentCurrencyAmount is an amount of money in major units, such as 1.50 for
// one dollar and fifty cents.
type PaymentCurrencyAmount struct {
	// Currency is an ISO 4217 code: three upper-case letters.
	Currency string `json:"currency" wire:"required"`
	// Value is the number as received. Calculate with [PaymentCurrencyAmount.Rat], never in
	// binary floating point.
	Value json.Number `json:"value" wire:"required"`
}

// PaymentItem is an item of an order, or its total.
type PaymentItem struct {
	Label  string                `json:"label" wire:"required"`
	Amount PaymentCurrencyAmount `json:"amount" wire:"required"`
	// Pending means that the amount may still change.
	Pending *bool `json:"pending,omitempty"`
	// RefundPeriod is in days, 0 or more; nil is AP2's default of 30.
	RefundPeriod *int `json:"refund_period,omitempty"`
}

// PaymentShippingOption is a delivery option.
type PaymentShippingOption struct {
	ID     string                `json:"id" wire:"required"` // unique among the options
	Label  string                `json:"label" wire:"required"`
	Amount PaymentCurrencyAmount `json:"amount" wire:"required"`
	// Selected marks the selected option, at most one; nil means false.
	Selected *bool `json:"selected,omitempty"`
}

// PaymentOptions lists the data that a merchant requests from the payer. Nil means false,
// except for RequestShipping, where it means true.
type PaymentOptions struct {
	RequestPayerName  *bool        `json:"request_payer_name,omitempty"`
	RequestPayerEmail *bool        `json:"request_payer_email,omitempty"`
	RequestPayerPhone *bool        `json:"request_payer_phone,omitempty"`
	RequestShipping   *bool        `json:"request_shipping,omitempty"`
	ShippingType      ShippingType `json:"shipping_type,omitempty"`
}

// PaymentMethodData is a payment method.
type PaymentMethodData struct {
	// SupportedMethods is, despite its name, one method, such as CARD or
	// https://www.x402.org/.
	SupportedMethods string `json:"supported_methods" wire:"required"`
	// Data has the parameters of the method.
	Data map[string]any `json:"data,omitzero"`
}

// PaymentDetailsModifier changes the price for a payment method.
type PaymentDetailsModifier struct {
	SupportedMethods string `json:"supported_methods" wire:"required"` // as in [PaymentMethodData]
	// Total replaces the total of the order.
	Total                  *PaymentItem  `json:"total,omitempty"`
	AdditionalDisplayItems []PaymentItem `json:"additional_display_items,omitempty"`
	// Data is any JSON value.
	Data any `json:"data,omitempty"`
}

// PaymentDetailsInit is an order with its total.
type PaymentDetailsInit struct {
	// ID is also PaymentResponse.RequestID and PaymentMandateContents.PaymentDetailsID.
	ID              string                   `json:"id" wire:"required"`
	DisplayItems    []PaymentItem            `json:"display_items" wire:"required"`
	ShippingOptions []PaymentShippingOption  `json:"shipping_options,omitempty"`
	Modifiers       []PaymentDetailsModifier `json:"modifiers,omitempty"`
	// Total is 0 or more, in the same currency as all items.
	Total PaymentItem `json:"total" wire:"required"`
	// Description, an extension, is a note on the order.
	Description string `json:"description,omitempty"`
}

// PaymentRequest requests the payment of an order (W3C Payment Request).
type PaymentRequest struct {
	MethodData      []PaymentMethodData `json:"method_data" wire:"required"` // one or more
	Details         PaymentDetailsInit  `json:"details" wire:"required"`
	Options         *PaymentOptions     `json:"options,omitempty"`
	ShippingAddress *ContactAddress     `json:"shipping_address,omitempty"`
}

// PaymentResponse is the user's choice of payment.
type PaymentResponse struct {
	RequestID  string `json:"request_id" wire:"required"`  // id of the PaymentDetailsInit
	MethodName string `json:"method_name" wire:"required"` // one of the methods of the request
	// Details is the credential or token. It is a secret that must not be logged.
	Details         map[string]any         `json:"details,omitzero"`
	ShippingAddress *ContactAddress        `json:"shipping_address,omitempty"`
	ShippingOption  *PaymentShippingOption `json:"shipping_option,omitempty"`
	PayerName       string                 `json:"payer_name,omitempty"`
	PayerEmail      string                 `json:"payer_email,omitempty"`
	PayerPhone      string                 `json:"payer_phone,omitempty"`
}
