"""Names and sentences of the sample: tickers, sources, and what articles about them say in Vietnamese and English.

Tickers are real or could be; the addresses end in `.example`, so that nothing here is attributed to a newspaper.
"""

from __future__ import annotations

_SHARES = """
    VNM FPT HPG VCB VIC VHM TCB MBB ACB SSI MWG MSN GAS CTG BID VPB STB HDB TPB VIB SHB SSB VRE VJC PLX POW SAB BVH GVR
    BCM PNJ REE GMD DGC DPM DCM NLG KDH VND HCM VCI DXG DIG PDR KBC NVL HSG NKG ANV VHC IDI ASM HAG DBC PAN PVD PVT BWE
    CII CTD HBC VCG FCN HHV LCG GEX GEE HAH VOS VTO SCS AST HVN FRT DGW PET CMG ELC SAM ITD BMP NTP AAA HII CSV LAS BFC
    DHG IMP TRA DBD OPC DMC SBT LSS QNS KDC NAF TAC HNG TLG RAL STK TNG MSH GIL TCM VGC CVT HTI BCE SZC SZL IJC HDC TDM
    PPC HND QTP VSH TMP CHP SJD EVF ORS CTS AGR FTS BSI TVS VDS EIB MSB OCB LPB NAB KLB BAB VBB SGB ABB
"""
TICKERS = tuple(_SHARES.split())
# Real tickers of shares, funds and covered warrants that the specification's pattern does not know.
ODD_TICKERS = ("CVNM2401", "E1VFVN30", "PC1", "FUEVFVND", "CFPT2402", "D2D", "FUESSV50", "CHPG2403", "C47", "CMWG2405")
SOURCES = ("hose-eod", "broker-api", "vendor-csv")
DOMAINS = (
    "tinchungkhoan.example",
    "thitruong24h.example",
    "nhipsongdautu.example",
    "bantintaichinh.example",
    "saigonmarkets.example",
    "hanoibusiness.example",
)
AUTHORS = ("Minh Anh", "Trần Quốc Bảo", "Lê Thu Hà", "Nguyễn Đức Long", "Phạm Ngọc Mai", "David Tran", "Hoàng Yến")
TAGS = {
    "vi": ("ngân hàng", "bất động sản", "kết quả kinh doanh", "khối ngoại", "cổ tức", "vĩ mô", "thép", "bán lẻ"),
    "en": ("banking", "property", "earnings", "foreign flows", "dividend", "macro", "steel", "retail"),
}
TITLES = {
    "vi": (
        "{symbol} và phiên giao dịch {day}: dòng tiền nói gì?",
        "Khối ngoại trở lại với {symbol} sau nhiều tuần bán ròng",
        "{symbol} công bố kế hoạch quý tới, cổ đông chờ cổ tức",
        "Vì sao {symbol} đi ngược thị trường trong tháng này",
    ),
    "en": (
        "{symbol} on {day}: what the order book is telling us",
        "Foreign desks return to {symbol} after weeks of selling",
        "{symbol} sets out its next quarter and keeps the dividend",
        "Why {symbol} moved against the market this month",
    ),
}
MACRO_TITLES = {
    "vi": ("Thanh khoản toàn thị trường ngày {day}", "Tỷ giá và lãi suất: tuần nhìn lại {day}"),
    "en": ("Turnover across the market on {day}", "Exchange rate and interest: the week of {day}"),
}
SENTENCES = {
    "vi": (
        "Giá đóng cửa thay đổi {percent} % so với phiên trước, trong khi khối lượng khớp lệnh đạt {volume} cổ phiếu.",
        "Lực mua chủ động xuất hiện ở nửa cuối phiên chiều và giữ được đến đợt khớp lệnh định kỳ.",
        "Ban lãnh đạo cho biết đơn hàng của quý tới đã ký được khoảng {percent} % kế hoạch năm.",
        "Nhà đầu tư nước ngoài mua ròng phiên thứ ba liên tiếp, tập trung ở nhóm vốn hóa lớn.",
        "Chi phí vốn giảm giúp biên lợi nhuận cải thiện, dù giá nguyên liệu đầu vào vẫn ở mức cao.",
        "Công ty chứng khoán giữ nguyên khuyến nghị và nhắc rằng rủi ro tỷ giá chưa kết thúc.",
        "Thanh khoản nghiêng về bên bán trong ba mươi phút đầu, sau đó cân bằng trở lại quanh giá tham chiếu.",
        "Đại hội cổ đông sẽ bàn về phương án phát hành thêm và mức cổ tức bằng tiền mặt.",
    ),
    "en": (
        "The close moved by {percent} % from the day before, on a matched volume of {volume} shares.",
        "Buyers became active in the second half of the afternoon and stayed until the closing auction.",
        "Management says that orders for the coming quarter already cover {percent} % of the annual plan.",
        "Foreign accounts were net buyers for a third session, mostly in the largest names on the board.",
        "Cheaper funding lifted the margin although the price of raw material is still high.",
        "The broker keeps its rating and reminds its clients that the currency risk has not gone away.",
        "Sellers led the first thirty minutes, then trading settled around the reference price.",
        "The meeting of shareholders will vote on new shares and on a dividend in cash.",
    ),
}
